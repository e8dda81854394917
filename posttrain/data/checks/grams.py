"""Token n-grams of many texts at once, and an index that finds those of a set of prompts.

Grams are compared by 64-bit hashes: what is found here is confirmed on the tokens themselves.
Every window counts, the last one of a text included.
"""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

Ints = NDArray[np.int64]
Hashes = NDArray[np.uint64]

_FACTOR = 0x9E3779B97F4A7C15


class Tokens(NamedTuple):
    """Texts end to end: text `t` is `ids[starts[t]:starts[t + 1]]`."""

    ids: Ints
    starts: Ints

    @classmethod
    def of(cls, texts: Sequence[Sequence[int]]) -> "Tokens":
        """Join `texts`."""
        starts = np.zeros(len(texts) + 1, dtype=np.int64)
        np.cumsum([len(text) for text in texts], out=starts[1:])
        ids = np.fromiter((i for text in texts for i in text), dtype=np.int64, count=starts[-1])
        return cls(ids, starts)

    @property
    def owners(self) -> Ints:
        """For each token the number of its text."""
        return np.repeat(np.arange(len(self.starts) - 1), np.diff(self.starts))


class Grams(NamedTuple):
    """The windows of one size in `Tokens`: hash, text and position of the first token of each."""

    hashes: Hashes
    owners: Ints
    positions: Ints


def grams(tokens: Tokens, size: int) -> Grams:
    """All windows of `size` tokens that lie within one text."""
    hashes = _hashes(tokens.ids, size)
    owners = tokens.owners
    positions = np.flatnonzero(
        np.arange(len(hashes)) + size <= tokens.starts[1:][owners[: len(hashes)]]
    )
    return Grams(hashes[positions], owners[positions], positions)


def _hashes(ids: Ints, size: int) -> Hashes:
    """The polynomial hash of each window of `size`, doubling the width while it fits."""
    if len(ids) < size:
        return np.zeros(0, dtype=np.uint64)
    single = _mixed(ids.astype(np.uint64) + np.uint64(1))
    hashes, width = single, 1
    while width < size:
        step = min(width, size - width)
        tail = hashes if step == width else _polynomial(single, step)
        end = len(ids) - width - step + 1
        hashes = hashes[:end] * np.uint64(pow(_FACTOR, step, 1 << 64)) + tail[width : width + end]
        width += step
    return _mixed(hashes)


def _polynomial(single: Hashes, size: int) -> Hashes:
    end = len(single) - size + 1
    total = np.zeros(end, dtype=np.uint64)
    for offset in range(size):
        total = total * np.uint64(_FACTOR) + single[offset : offset + end]
    return total


def _mixed(values: Hashes) -> Hashes:
    """Spread every bit over the word (the finaliser of splitmix64)."""
    values = (values ^ (values >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    values = (values ^ (values >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return values ^ (values >> np.uint64(31))


class Table:
    """The grams of one size of a set of prompts, to look hashes up in."""

    def __init__(self, found: Grams) -> None:
        order = np.argsort(found.hashes, kind="stable")
        self._hashes = found.hashes[order]
        self.owners = found.owners[order]
        self.positions = found.positions[order]
        # Most grams of a text are in no prompt: a table of bits turns them away at once.
        bits = max(16, int(len(order) * 16).bit_length())
        self._shift = np.uint64(64 - bits)
        self._seen = np.zeros(1 << bits, dtype=np.bool_)
        self._seen[self._hashes >> self._shift] = True

    def known(self, hashes: Hashes) -> Ints:
        """The indices of those `hashes` that are in the table."""
        maybe = np.flatnonzero(self._seen[hashes >> self._shift])
        wanted = hashes[maybe]
        at = np.searchsorted(self._hashes, wanted)
        at[at == len(self._hashes)] = 0
        return maybe[self._hashes[at] == wanted] if len(self._hashes) else maybe[:0]

    def entries(self, hashes: Hashes) -> Ints:
        """The indices into `owners` and `positions` of all grams with one of `hashes`."""
        wanted = np.unique(hashes)
        first = np.searchsorted(self._hashes, wanted, "left")
        counts = np.searchsorted(self._hashes, wanted, "right") - first
        ends = np.cumsum(counts)
        found: Ints = np.arange(counts.sum()) + np.repeat(first - ends + counts, counts)
        return found
