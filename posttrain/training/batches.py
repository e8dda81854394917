"""Which examples each step trains on: pure functions of lengths, shares and the seed.

The whole run's batches are fixed before the first step, so a step's batch depends on its number
alone and a resumed run sees what an undisturbed one would have seen.
"""

import random
from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

_STEP_COST = 256
"""What one more micro-batch costs, in tokens of forward and backward pass (measured, one core)."""


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


def batches(
    places: Iterator[Place],
    lengths: Mapping[str, Sequence[int]],
    *,
    steps: int,
    size: int,
    window: int,
    seed: int,
) -> list[list[Place]]:
    """The batches of `steps` steps, each sorted by length.

    Of every `window` batches' worth of places, neighbours in length share a batch, and the
    batches come in random order: little padding, still no order by length.
    """
    draw = random.Random(f"{seed}/batches")
    found: list[list[Place]] = []
    while len(found) < steps:
        taken = [next(places) for _ in range(size * window)]
        taken.sort(key=lambda place: lengths[place.source][place.row])
        made = [taken[start : start + size] for start in range(0, len(taken), size)]
        draw.shuffle(made)
        found += made
    return found[:steps]


def micro_batch_size(lengths: Sequence[int]) -> int:
    """Rows per micro-batch, a divisor of the batch: least padding plus cost per micro-batch.

    `lengths` are sorted, so each micro-batch is padded to its last row.
    """
    rows = len(lengths)

    def cost(size: int) -> int:
        return sum(size * lengths[end - 1] + _STEP_COST for end in range(size, rows + 1, size))

    return min((size for size in range(1, rows + 1) if rows % size == 0), key=cost)
