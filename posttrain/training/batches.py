"""Which examples each step trains on: pure functions of targets, shares and the seed.

The whole run's batches are fixed before the first step, so a step's batch depends on its number
alone and a resumed run sees what an undisturbed one would have seen.
"""

import random
from collections.abc import Iterator, Mapping, Sequence
from itertools import islice
from typing import NamedTuple


class Place(NamedTuple):
    """An example: its source and its row there."""

    source: str
    row: int


def shuffled(
    sizes: Mapping[str, Sequence[int]],
    shares: Mapping[str, float],
    seed: int,
    supply: Mapping[str, int] | None = None,
    *,
    reweight: bool = False,
) -> Iterator[Place]:
    """Places in which each source gives its share of the sizes; endless without a `supply`.

    `sizes[source][index]` is what an example counts: its loss targets, say. The source furthest
    below its share gives the next example; within a source, each epoch is a new permutation. A
    source that has given as many examples as its supply ends them all, or with `reweight` leaves
    its share to the others.
    """
    given = dict.fromkeys(sorted(shares), 0)
    most = supply or {}
    epochs = {
        name: islice(_epochs(len(sizes[name]), f"{seed}/{name}"), most.get(name)) for name in shares
    }
    while given:
        name = min(given, key=lambda each: given[each] / shares[each])
        index = next(epochs[name], None)
        if index is not None:
            given[name] += sizes[name][index]
            yield Place(name, index)
        elif reweight:
            del given[name]
        else:
            return


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
