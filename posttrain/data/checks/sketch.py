"""Counts of hashes in fixed memory: never too low, and rarely too high.

A count-min sketch (Cormode and Muthukrishnan, J. Algorithms 55 (2005) 58) with two lanes: the
count of a hash is the smaller of its two cells.
"""

import numpy as np
from numpy.typing import NDArray

from posttrain.data.checks.grams import Hashes

_BITS = 21
"""2 x 2**21 cells of 4 bytes: 16 MiB. Counts are too high by about all hashes / 2**21."""


class Sketch:
    """How often each hash was added, about."""

    def __init__(self) -> None:
        self._cells = np.zeros((2, 1 << _BITS), dtype=np.uint32)

    def add(self, hashes: Hashes) -> None:
        """Count each of `hashes` once more."""
        for lane, at in zip(self._cells, _places(hashes), strict=True):
            np.add.at(lane, at, 1)

    def counts(self, hashes: Hashes) -> NDArray[np.uint32]:
        """The count of each of `hashes`."""
        first, second = _places(hashes)
        found: NDArray[np.uint32] = np.minimum(self._cells[0][first], self._cells[1][second])
        return found


def _places(hashes: Hashes) -> tuple[Hashes, Hashes]:
    """A cell by the high bits of each hash and one by the low ones: these are independent."""
    return hashes >> np.uint64(64 - _BITS), hashes & np.uint64((1 << _BITS) - 1)
