"""From a finished run to a checkpoint artifact, and the record of its steps.

The artifact has the weights of verl's last checkpoint and the tokenizer, template and RoPE of the
checkpoint it started from, compared by value.
"""

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from posttrain.conversion import shards
from posttrain.rl.tally import UNVERIFIABLE
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


class Log:
    """Metrics by step, one JSON line each, in a file that survives the process.

    Steps after `resumed` are forgotten: the run takes them again.
    """

    def __init__(self, path: Path, resumed: int) -> None:
        lines = path.read_text().splitlines() if path.exists() else []
        rows = [json.loads(line) for line in lines if line.endswith("}")]
        self.rows: list[dict[str, float]] = [row for row in rows if row["step"] <= resumed]
        self._path = path
        path.write_text("".join(json.dumps(row) + "\n" for row in self.rows))

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
        "unverifiable": sum(
            count for row in rows for name, count in row.items() if name.endswith(_UNVERIFIABLE)
        ),
        **totals,
    }
