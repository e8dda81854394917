"""The order in which prompts are issued: endless, and a function of seed, sources and drops alone.

Prompt number 0, 1, 2, ... takes turns among the sources so that each has its share of any stretch,
to within one prompt a source; within a source every row comes once before any comes twice, in a
new order each time. What was issued so far is a few numbers, so that a run goes on exactly where
its checkpoint was made, epoch ends included.
"""

import random
from collections.abc import Iterable, Mapping
from itertools import groupby
from typing import Any, NamedTuple


class Place(NamedTuple):
    """Prompt `number` of a run: line `row` (from 0) of the frozen prompts, which is `source`'s."""

    number: int
    row: int
    source: str


class Order:
    """`sources` names the source of each frozen row; `shares` what each source gives, sum 1.

    Without `shares` a source gives in proportion to its rows.
    """

    def __init__(self, sources: Iterable[str], shares: Mapping[str, float], seed: int) -> None:
        self._rows: dict[str, range] = {}
        start = 0
        for source, rows in groupby(sources):
            assert source not in self._rows, f"the rows of source {source} are not together"
            self._rows[source] = range(start, start := start + len(list(rows)))
        self.shares = dict(shares) or {name: len(own) / start for name, own in self._rows.items()}
        self._seed = seed
        self._issued = dict.fromkeys(self._rows, 0)
        self._credit = dict.fromkeys(self._rows, 0.0)
        self._shuffled: dict[str, tuple[int, list[int]]] = {}

    @property
    def number(self) -> int:
        """The number of the prompt that comes next: how many were issued."""
        return sum(self._issued.values())

    @property
    def sources(self) -> list[str]:
        """Those that still give prompts."""
        return list(self._credit)

    def draw(self) -> Place:
        """The next prompt."""
        for source in self._credit:
            self._credit[source] += self.shares[source]
        source = max(self._credit, key=lambda name: self._credit[name])
        self._credit[source] -= sum(self.shares[name] for name in self._credit)
        place = Place(self.number, self._row(source, self._issued[source]), source)
        self._issued[source] += 1
        return place

    def drop(self, source: str) -> None:
        """Issue no more of `source`; the others share its turns. ValueError if it is the last."""
        if len(self._credit) == 1:
            raise ValueError(f"{source} is the only source left")
        del self._credit[source]

    def _row(self, source: str, turn: int) -> int:
        rows = self._rows[source]
        epoch, at = divmod(turn, len(rows))
        if self._shuffled.get(source, (-1, []))[0] != epoch:
            order = list(rows)
            random.Random(f"order {self._seed} {source} {epoch}").shuffle(order)
            self._shuffled[source] = (epoch, order)
        return self._shuffled[source][1][at]

    def state_dict(self) -> dict[str, Any]:
        """How far it has come, as plain values."""
        return {"issued": dict(self._issued), "credit": dict(self._credit)}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Go on from there; ValueError if that was another order."""
        if state["issued"].keys() != self._rows.keys():
            raise ValueError(
                f"the checkpoint is of sources {', '.join(state['issued'])}, "
                f"the run of {', '.join(self._rows)}"
            )
        self._issued, self._credit = dict(state["issued"]), dict(state["credit"])
