"""A probe: an item whose right score is known by how it was made, and what it tests."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import cycle, islice
from random import Random
from typing import Literal

from rewards.schema import Item

Check = Literal["conformance", "metamorphic", "adversarial"]
"""Known items; rewritings that keep or change what is said; attempts to be paid for nothing."""


@dataclass(frozen=True)
class Probe:
    """`item`, made by `rule`, earns the whole reward if `right`, else nothing."""

    check: Check
    rule: str
    item: Item
    right: bool


Maker = Callable[[Random], Probe]
"""Draws one probe; its item needs no id of its own."""


def drawn(makers: Sequence[Maker], draw: Random, count: int) -> Iterator[Probe]:
    """`count` probes, from each maker in turn, with ids."""
    for number, maker in enumerate(islice(cycle(makers), count)):
        probe = maker(draw)
        name = f"{probe.check}-{number}"
        item = probe.item.model_copy(update={"id": name})
        yield Probe(probe.check, probe.rule, item, probe.right)
