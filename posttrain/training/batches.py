"""Which examples each step trains on: pure functions of targets, shares and the seed.

The whole run's batches are fixed before the first step, so a step's batch depends on its number
alone and a resumed run sees what an undisturbed one would have seen.
"""

import random
from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple


class Place(NamedTuple):
    """An example: its source and its row there."""

    source: str
    row: int


def shuffled(
    targets: Mapping[str, Sequence[int]], shares: Mapping[str, float], seed: int
) -> Iterator[Place]:
    """Endless places in which each source gives its share of the targets.

    `targets[source][index]` is an example's number of loss targets. The source furthest below
    its share gives the next example; within a source, each epoch is a new permutation.
    """
    given = dict.fromkeys(sorted(shares), 0)
    epochs = {name: _epochs(len(targets[name]), f"{seed}/{name}") for name in shares}
    while True:
        name = min(given, key=lambda each: given[each] / shares[each])
        index = next(epochs[name])
        given[name] += targets[name][index]
        yield Place(name, index)


def in_order(source: str, count: int) -> Iterator[Place]:
    """Endless places of one source in its own order: a curriculum is a property of the data."""
    while True:
        for index in range(count):
            yield Place(source, index)


def _epochs(count: int, seed: str) -> Iterator[int]:
    epoch = 0
    while True:
        order = list(range(count))
        random.Random(f"{seed}/{epoch}").shuffle(order)
        yield from order
        epoch += 1
