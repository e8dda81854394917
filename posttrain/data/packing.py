"""Best-fit-decreasing packing of documents into bins (facts.md 4.2): a pure function of lengths.

Documents are placed from the longest to the shortest, equal ones in their own order, each into
the open bin with the least room that suffices, of several into the first opened. A bin closes
when it is full or holds the most documents allowed.
"""

from collections.abc import Sequence
from heapq import heappop, heappush
from typing import Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray
from pydantic import BaseModel, ConfigDict, PositiveInt

_WORD = 512
"""Bits per word of the index of rooms: Python integers of this size are shifted at once."""


class PackingConfig(BaseModel):
    """At most `documents` in a bin; and what becomes of a document that is longer than a bin.

    `refuse` is an error, `truncate` keeps its beginning, `split` cuts it into documents of a bin's
    size. What has no target after that is left out.
    """

    model_config = ConfigDict(extra="forbid", frozen=True)

    documents: PositiveInt
    oversize: Literal["refuse", "truncate", "split"] = "refuse"


class Packing(NamedTuple):
    """Bin `b` holds `documents[starts[b]:starts[b + 1]]`, in the order of their placing."""

    documents: NDArray[np.int64]
    starts: NDArray[np.int64]

    def __len__(self) -> int:
        return len(self.starts) - 1

    def bin(self, number: int) -> NDArray[np.int64]:
        """The documents of one bin."""
        return self.documents[self.starts[number] : self.starts[number + 1]]


def pack(lengths: Sequence[int] | NDArray[np.int64], capacity: int, most: int) -> Packing:
    """Pack documents of `lengths` tokens into bins of `capacity`, at most `most` in each.

    ValueError names a document that is longer than a bin: cut or split it first.
    """
    sizes = np.asarray(lengths, dtype=np.int64)
    if (wrong := np.flatnonzero((sizes > capacity) | (sizes < 0))).size:
        raise ValueError(
            f"document {wrong[0]} has {sizes[wrong[0]]} tokens and a bin {capacity}; "
            "cut or split it before packing"
        )
    order = np.argsort(-sizes, kind="stable")
    values, counts = np.unique(-sizes[order], return_counts=True)
    bins, opened = _Bins(capacity, most), []
    for size, count in zip((-values).tolist(), counts.tolist(), strict=True):
        opened += bins.place(size, count)
    return _grouped(order, np.repeat(*np.array(opened, dtype=np.int64).reshape(-1, 2).T))


def _grouped(order: NDArray[np.int64], bins: NDArray[np.int64]) -> Packing:
    """`bins[i]` got document `order[i]`."""
    by_bin = np.argsort(bins, kind="stable")
    counts = np.bincount(bins)
    return Packing(order[by_bin], np.concatenate([[0], np.cumsum(counts)]))


class _Bins:
    """The open bins, by their room."""

    def __init__(self, capacity: int, most: int) -> None:
        self._capacity, self._most = capacity, most
        self._rooms = _Rooms(capacity)
        self._open: list[list[int]] = [[] for _ in range(capacity + 1)]
        self._held: list[int] = []

    def place(self, size: int, count: int) -> list[tuple[int, int]]:
        """Place `count` documents of one size; returns (bin, how many of them) in order.

        The best bin stays the best while it can take another of the same size.
        """
        placed = []
        while count:
            number, room = self._best(size)
            taken = min(count, self._most - self._held[number], room // size if size else count)
            self._held[number] += taken
            if room > taken * size and self._held[number] < self._most:
                self._put(number, room - taken * size)
            placed.append((number, taken))
            count -= taken
        return placed

    def _best(self, size: int) -> tuple[int, int]:
        """Take out the best bin for `size`, a new one where none has the room; with its room."""
        room = self._rooms.least(size)
        if room is None:
            self._held.append(0)
            return len(self._held) - 1, self._capacity
        waiting = self._open[room]
        number = heappop(waiting)
        if not waiting:
            self._rooms.remove(room)
        return number, room

    def _put(self, number: int, room: int) -> None:
        if not self._open[room]:
            self._rooms.add(room)
        heappush(self._open[room], number)


class _Rooms:
    """A set of integers up to `largest` that finds its least member from a bound on."""

    def __init__(self, largest: int) -> None:
        self._words = [0] * (largest // _WORD + 1)
        self._filled = 0

    def add(self, value: int) -> None:
        word, bit = divmod(value, _WORD)
        self._words[word] |= 1 << bit
        self._filled |= 1 << word

    def remove(self, value: int) -> None:
        word, bit = divmod(value, _WORD)
        self._words[word] &= ~(1 << bit)
        if not self._words[word]:
            self._filled &= ~(1 << word)

    def least(self, bound: int) -> int | None:
        """The least member that is at least `bound`; None if there is none."""
        word, bit = divmod(bound, _WORD)
        if found := self._words[word] >> bit << bit:
            return word * _WORD + _lowest(found)
        if not (later := self._filled >> (word + 1) << (word + 1)):
            return None
        word = _lowest(later)
        return word * _WORD + _lowest(self._words[word])


def _lowest(bits: int) -> int:
    return (bits & -bits).bit_length() - 1
