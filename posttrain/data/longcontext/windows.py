"""Which documents make the rows of a target length: shorter ones are asked harder.

Source: facts.md 4.4.
"""

from collections.abc import Mapping
from typing import Literal, NamedTuple

Level = Literal["hard", "easy"]


class Window(NamedTuple):
    """Lengths in tokens, from `least` up to but not including `limit`."""

    least: int
    limit: int

    def holds(self, tokens: int) -> bool:
        """Whether a length lies within."""
        return self.least <= tokens < self.limit


def buckets(target: int) -> Mapping[Level, Window]:
    """The window of each level: for 32,768 tokens hard 8,192-16,384 and easy 16,384-32,768."""
    return {"hard": Window(target // 4, target // 2), "easy": Window(target // 2, target)}


def level(tokens: int, target: int) -> Level | None:
    """The level whose window holds a document of this length, if one does."""
    return next((name for name, window in buckets(target).items() if window.holds(tokens)), None)
