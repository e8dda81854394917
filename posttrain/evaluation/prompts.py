"""Scores prompt by prompt, in the order of a suite's rows: what paired tests are made on."""

import statistics
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from rewards.wilson import interval


@dataclass(frozen=True)
class PromptScores:
    """The scores of each prompt's attempts, and the groups it belongs to."""

    attempts: Sequence[Sequence[float]]
    groups: Sequence[Sequence[str]]

    def told(self) -> dict[str, list[list[Any]]]:
        """As JSON values."""
        return {"attempts": [*map(list, self.attempts)], "groups": [*map(list, self.groups)]}


Keep = Callable[[PromptScores], None]
"""What is done with the scores of a suite, besides its figures."""


def drop(scores: PromptScores) -> None:
    """Keep nothing."""


def by_prompt(
    scores: Sequence[float],
    rows: Sequence[Mapping[str, Any]],
    groups: Callable[[Mapping[str, Any]], Sequence[object]],
) -> PromptScores:
    """`scores` of equally many attempts at each of `rows`, those at one following one another."""
    count = len(scores) // len(rows)
    assert count * len(rows) == len(scores), "a prompt lacks an attempt"
    attempts = [scores[start : start + count] for start in range(0, len(scores), count)]
    return PromptScores(attempts, [[str(name) for name in groups(row)] for row in rows])


def summary(kept: PromptScores) -> dict[str, float]:
    """`accuracy`, `standard_error`, `n`, and `accuracy.GROUP` with `low.` and `high.` of each.

    The error is that of the prompts' means, for attempts at one prompt are alike. Bounds are
    Wilson's at 95 %, and left out where a prompt was tried twice or is neither right nor wrong.
    """
    means = [statistics.fmean(attempts) for attempts in kept.attempts]
    groups: dict[str, list[float]] = {}
    for mean, names in zip(means, kept.groups, strict=True):
        for name in names:
            groups.setdefault(name, []).append(mean)
    found = {
        "accuracy": statistics.fmean(means),
        "standard_error": statistics.stdev(means) / len(means) ** 0.5,
        "n": float(sum(map(len, kept.attempts))),
    }
    counted = all(len(a) == 1 and a[0] in (0.0, 1.0) for a in kept.attempts)
    for name, scores in sorted(groups.items()):
        found[f"accuracy.{name}"] = statistics.fmean(scores)
        if counted:
            low, high = interval(round(sum(scores)), len(scores))
            found |= {f"low.{name}": low, f"high.{name}": high}
    return found
