"""The reference's log-probabilities of completions: made once, kept, and known to belong.

Always holds: what was computed ahead is used only for the checkpoint, tokenizer, template, RoPE
and rows it was computed with. A reference is one value for each completion, so that training has
one model in memory.
"""

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from posttrain.data import splits
from posttrain.data.pairs import Group, Groups, tokens
from posttrain.store import write_durably
from posttrain.training.completions import log_probs
from posttrain.training.engine import Engine
from posttrain.training.optimizers import OptimizerConfig
from posttrain.training.policy import Policy
from posttrain.training.process import single_process_group, threads
from posttrain.training.schedules import ScheduleConfig

Known = Mapping[str, Sequence[Sequence[float]]]
"""Of each source's groups, in their order, the log-probability of each completion."""

_CHUNK = 256
"""Groups between two saves."""

_POLICY = ("weights_sha256", "tokenizer_sha256", "template_sha256", "rope")

# An engine has an optimizer; this one is never stepped, and so holds no state.
_IDLE = OptimizerConfig.model_validate({"adamw": {"lr": 1.0}})


@dataclass(frozen=True)
class Ahead:
    """Log-probabilities computed ahead: the folder of the artifact and its facts."""

    folder: Path
    facts: Mapping[str, Any]


def compute(
    policy: Policy, sources: Mapping[str, Groups], count: int,
    *, backend: str, work: Path, output: Path, report: Callable[[int, int], None],
) -> dict[str, float]:  # fmt: skip
    """Write `<name>.jsonl` to `output`, a line for each group of a source; returns metrics."""
    total, done = sum(len(each.groups) for each in sources.values()), 0
    idle = ScheduleConfig.model_validate({"constant": {}})
    with threads(count), single_process_group(backend):
        engine = Engine(policy.model, policy.folder, _IDLE, idle, 1, backend)
        for name, source in sources.items():
            lines: list[dict[str, Any]] = []
            for first in range(0, len(source.groups), _CHUNK):
                lines += _chunk(engine, source, first, work / f"{name}.{first}.json")
                report(done + len(lines), total)
            done += len(lines)
            text = "".join(json.dumps(line) + "\n" for line in lines)
            (output / f"{name}.jsonl").write_text(text, encoding="utf-8")
    return {"groups": float(total)} | counts(sources)


def _chunk(engine: Engine, source: Groups, first: int, kept: Path) -> list[dict[str, Any]]:
    """A line for each group from `first` on; `kept` has them if they were computed before."""
    if kept.is_file():
        lines: list[dict[str, Any]] = json.loads(kept.read_text())
        return lines
    groups = source.groups[first : first + _CHUNK]
    values = iter(log_probs(engine, [side for each in groups for side in each.sides]))
    lines = [
        {
            "row": row, "log_probs": [next(values) for _ in each.sides],
            "tokens": tokens(each.sides),
        }
        for row, each in zip(source.rows[first : first + _CHUNK], groups, strict=True)
    ]  # fmt: skip
    write_durably(kept, json.dumps(lines))
    return lines


def counts(sources: Mapping[str, Groups]) -> dict[str, float]:
    """How many rows of each source were left out, by reason."""
    return {
        f"dropped.{name}.{reason}": float(count)
        for name, source in sources.items()
        for reason, count in source.dropped.items()
    }


def identity(policy: Mapping[str, Any], data: Mapping[str, Path]) -> dict[str, Any]:
    """What log-probabilities belong to: a checkpoint's facts, and the file of each source."""
    return {
        "policy": {name: policy[name] for name in _POLICY},
        "data": {name: splits.digest_of(path) for name, path in sorted(data.items())},
    }


def check(folder: Path, recorded: Mapping[str, Any], expected: Mapping[str, Any]) -> None:
    """ValueError names what the reference in `folder` was computed for instead.

    `recorded` and `expected` are what `identity` gave there and gives here.
    """
    for part, wanted in expected.items():
        for name, value in wanted.items():
            if (found := recorded[part].get(name)) != value:
                raise ValueError(
                    f"the reference in {folder} was computed for another {part}: its {name} is "
                    f"{found}, here {value}; compute it from what this stage starts from"
                )


def load(ahead: Ahead, expected: Mapping[str, Any], sources: Mapping[str, Groups]) -> Known:
    """What was computed ahead of `sources`; ValueError as `check`, and if a row is another."""
    check(ahead.folder, ahead.facts, expected)
    return {name: _read(ahead.folder / f"{name}.jsonl", each) for name, each in sources.items()}


def _read(path: Path, source: Groups) -> list[list[float]]:
    parsed = map(json.loads, path.read_text("utf-8").splitlines())
    lines = {line["row"]: line for line in parsed}
    return [
        _matching(lines.get(row), each, row, path)
        for row, each in zip(source.rows, source.groups, strict=True)
    ]


def _matching(line: Mapping[str, Any] | None, group: Group, row: int, path: Path) -> list[float]:
    if line is None:
        raise ValueError(f"{path} lacks row {row + 1}: compute the reference with this length")
    if line["tokens"] != (here := tokens(group.sides)):
        raise ValueError(
            f"{path}: row {row + 1} has {line['tokens']} tokens there and {here} here; compute "
            "the reference again"
        )
    values: list[float] = line["log_probs"]
    return values
