"""Scores prompt by prompt, in the order of a suite's rows: what paired tests are made on."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any


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
