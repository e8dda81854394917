"""Drift: a source's share of what a run has drawn so far, against the share it was to have.

Sources are drawn so that each keeps its share to within an example; what strays did run dry, or is
not the data that was planned with.
"""

from collections.abc import Iterator, Mapping
from typing import NamedTuple

BOUND = 0.02
"""How far a share may stray before it is told: two points in a hundred."""


class Drift(NamedTuple):
    """A source's share as declared, and as realised."""

    source: str
    declared: float
    realised: float

    def __str__(self) -> str:
        return f"{self.source} gives {self.realised:.1%} and was to give {self.declared:.1%}"


class Watch:
    """Adds up what each step draws, and tells of each source once, when its share strays."""

    def __init__(self, declared: Mapping[str, float], bound: float = BOUND) -> None:
        self._declared, self._bound = declared, bound
        self._given = dict.fromkeys(declared, 0.0)
        self._told: set[str] = set()

    def drawn(self, amounts: Mapping[str, float], largest: float) -> Iterator[Drift]:
        """The sources that stray from this step on; `largest` is the largest example's amount.

        By that much a source may be ahead or behind without straying.
        """
        for source, amount in amounts.items():
            self._given[source] += amount
        total = sum(self._given.values())
        for source, share in self.shares().items():
            off = abs(share - self._declared[source])
            if off > self._bound + largest / max(total, 1.0) and source not in self._told:
                self._told.add(source)
                yield Drift(source, self._declared[source], share)

    def shares(self) -> dict[str, float]:
        """Each source's share of all that was drawn; empty before anything was."""
        total = sum(self._given.values())
        return {source: given / total for source, given in self._given.items()} if total else {}
