"""Cells of a matrix: a share with its interval, and how it changed from the stage before."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from statistics import fmean
from typing import Any

import numpy as np

from posttrain.gates import Scores, paired
from rewards.wilson import interval

CHANCE = 0.05
"""A change is marked if it comes about by chance less often than this (one-sided, uncorrected)."""

_RESAMPLES = 2000
_CHUNK = 1 << 21


@dataclass(frozen=True)
class Cell:
    """What a checkpoint scored in a capability; `change` is +1 or -1 where it truly changed."""

    accuracy: float
    low: float
    high: float
    prompts: int
    change: int = 0


@dataclass(frozen=True)
class Matrix:
    """`cells` by capability and checkpoint; a pair that was not measured has none."""

    run: str
    checkpoints: Sequence[str]
    capabilities: Sequence[str]
    cells: Mapping[tuple[str, str], Cell]

    def told(self) -> dict[str, Any]:
        """As JSON values."""
        rows = {
            capability: {
                checkpoint: asdict(self.cells[capability, checkpoint])
                for checkpoint in self.checkpoints
                if (capability, checkpoint) in self.cells
            }
            for capability in self.capabilities
        }
        return {"run": self.run, "checkpoints": [*self.checkpoints], "capabilities": rows}


def matrix(
    run: str, measured: Mapping[str, Mapping[str, Scores]], *, groups: bool = False
) -> Matrix:
    """The matrix of checkpoint -> suite -> scores, the checkpoints in their order.

    With `groups` each group of a suite is a capability of its own, named `suite.group`.
    """
    every = {name: dict(_capabilities(scores, groups)) for name, scores in measured.items()}
    names = list(dict.fromkeys(name for found in every.values() for name in found))
    suites = list(dict.fromkeys(name.partition(".")[0] for name in names))
    names.sort(key=lambda name: suites.index(name.partition(".")[0]))
    cells: dict[tuple[str, str], Cell] = {}
    for name in names:
        before: Scores | None = None
        for checkpoint, found in every.items():
            if scores := found.get(name):
                cells[name, checkpoint] = cell(scores, before)
                before = scores
    return Matrix(run, list(measured), names, cells)


def _capabilities(scores: Mapping[str, Scores], groups: bool) -> Iterator[tuple[str, Scores]]:
    for suite, found in scores.items():
        yield suite, found
        if groups:
            for group in sorted({name for names in found.groups for name in names}):
                yield f"{suite}.{group}", found.of(group)


def cell(scores: Scores, before: Scores | None) -> Cell:
    """The cell of `scores`, compared with those of the same prompts `before`."""
    means = [fmean(attempts) for attempts in scores.attempts]
    low, high = _bounds(means, _counted(scores))
    return Cell(fmean(means), low, high, len(means), _change(scores, before) if before else 0)


def _bounds(means: Sequence[float], counted: bool) -> tuple[float, float]:
    """At 95 %: Wilson's where prompts are right or wrong, else of resampled prompts.

    As in the gates' bootstrap, one prompt won and one lost are added to what is resampled.
    """
    if counted:
        return interval(round(sum(means)), len(means))
    sample = np.array([*means, 0.0, 1.0])
    generator = np.random.default_rng(0)
    step = max(1, _CHUNK // len(sample))
    drawn = [
        sample[generator.integers(0, len(sample), (min(step, _RESAMPLES - at), len(sample)))].mean(
            1
        )
        for at in range(0, _RESAMPLES, step)
    ]
    low, high = np.quantile(np.concatenate(drawn), [0.025, 0.975])
    return float(low), float(high)


def _change(after: Scores, before: Scores) -> int:
    if after.digest != before.digest or len(after.attempts) != len(before.attempts):
        return 0
    gains = [
        fmean(new) - fmean(old) for new, old in zip(after.attempts, before.attempts, strict=True)
    ]
    counted = _counted(after) and _counted(before)
    up, down = (_p([sign * gain for gain in gains], counted) for sign in (1, -1))
    return int(up < CHANCE) - int(down < CHANCE)


def _p(gains: Sequence[float], counted: bool) -> float:
    if counted:
        return paired.mcnemar(sum(g > 0 for g in gains), sum(g < 0 for g in gains))
    return paired.bootstrap(gains, 0.0)


def _counted(scores: Scores) -> bool:
    """Whether each prompt was tried once, and is right or wrong."""
    return all(len(each) == 1 and each[0] in (0.0, 1.0) for each in scores.attempts)
