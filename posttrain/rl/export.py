"""From a finished run to a checkpoint artifact, and the record of its steps.

The artifact has the weights of verl's last checkpoint and the tokenizer, template and RoPE of the
checkpoint it started from, compared by value.
"""

import hashlib
import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from posttrain.conversion import shards
from posttrain.rl.account import account
from posttrain.rl.config import Place
from posttrain.rl.ledger import ARCHIVED, Events, archive
from posttrain.rl.tally import UNVERIFIABLE
from posttrain.rl.watch import read as results
from posttrain.store import write_durably
from posttrain.training import rope
from posttrain.training.checkpoint import load_model, load_tokenizer, save_model

_UNVERIFIABLE = f".{UNVERIFIABLE}"


def export(start: Path, expected: Mapping[str, Any], trained: Path, output: Path) -> dict[str, Any]:
    """Write `output`/model from verl's checkpoint folder `trained`; returns its facts.

    `start` and `expected` are path and facts of the checkpoint artifact trained from. ValueError
    when RoPE or tokenizer are not those. verl's own export is not used: it writes bfloat16 into
    the config of a float32 model and fails the second time in a process (xIELU, verl 0.9.1).
    """
    model = load_model(start, expected)
    model.load_state_dict(shards.whole(trained / "actor"))
    rope.check(model, expected["rope"])
    facts = save_model(model, load_tokenizer(start, expected), output / "model")
    for name in ("tokenizer_sha256", "template_sha256"):
        if facts[name] != expected[name]:
            raise ValueError(f"{name} changed from {expected[name]} to {facts[name]}")
    return facts


def records(place: Place, output: Path) -> dict[str, Any]:
    """Write what the run kept beside its weights; returns the facts of it.

    That is the sample ledger, `lengths.json` (tokens of a trained response -> how often, as the
    simulator reads it), and verl's resolved config; a fact is what the verifiers did when they were
    tried. ValueError if the ledger does not balance.
    """
    found = account(Events(place.ledger))
    if fault := found.imbalance():
        raise ValueError(f"{place.ledger} does not balance: {fault}")
    archive(place.ledger, output / ARCHIVED)
    lengths = {str(tokens): count for tokens, count in sorted(found.lengths.items())}
    (output / "lengths.json").write_text(json.dumps(lengths) + "\n")
    resolved = place.resolved.read_text()
    (output / place.resolved.name).write_text(resolved)
    digest = hashlib.sha256(resolved.encode()).hexdigest()
    facts = {"prompts": found.totals(), "verl_config_sha256": digest}
    if place.capacity.is_file():
        facts["capacity"] = json.loads(place.capacity.read_text())
    return facts


def watched(place: Place, output: Path) -> dict[str, float]:
    """Write the results of the held-out evaluations; of each suite, its first and last accuracy."""
    rows = results(place.watched)
    if not rows:
        return {}
    (output / place.watched.name).write_text(place.watched.read_text())
    found: dict[str, float] = {}
    for row in rows:
        name = f"watch.{row['suite']}"
        if "accuracy" in row:
            found.setdefault(f"{name}.accuracy.first", row["accuracy"])
            found |= {f"{name}.{each}.last": row[each] for each in ("accuracy", "low", "high")}
    return found


class Log:
    """Metrics by step, one JSON line each, in a file that survives the process.

    Steps after `resumed` are forgotten: the run takes them again.
    """

    def __init__(self, path: Path, resumed: int) -> None:
        lines = path.read_text().splitlines() if path.exists() else []
        rows = [json.loads(line) for line in lines if line.endswith("}")]
        self.rows: list[dict[str, float]] = [row for row in rows if row["step"] <= resumed]
        self._path = path
        write_durably(path, "".join(json.dumps(row) + "\n" for row in self.rows))

    def add(self, step: int, metrics: Mapping[str, float]) -> None:
        """Append one step."""
        self.rows.append({"step": step, **metrics})
        with self._path.open("a") as stream:
            stream.write(json.dumps(self.rows[-1]) + "\n")


def summary(rows: Sequence[Mapping[str, float]]) -> dict[str, float]:
    """Figures of a run: reward at both ends, the worst of what is bounded, what was dropped."""
    tail = rows[-5:]
    totals = {
        name: sum(row[name] for row in rows)
        for name in ("dropped_equal", "dropped_stale", "dropped_faults")
    }
    return {
        "reward_first": rows[0]["reward"],
        "reward_last": sum(row["reward"] for row in tail) / len(tail),
        "correlation": min(row["correlation"] for row in rows),
        "staleness": max(row["staleness"] for row in rows),
        "staleness_p99": max(row["staleness_p99"] for row in rows),
        "unverifiable": sum(
            count for row in rows for name, count in row.items() if name.endswith(_UNVERIFIABLE)
        ),
        **totals,
    }
