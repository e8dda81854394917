"""Where good turns to bad in a row of points: a search that looks at as few as it can.

Always holds: point 0 is good and the last is bad when a search begins; what it returns is a bad
point right after a good one. Pure: points are numbers, and what is good a function of them.
"""

from collections.abc import Callable, Sequence
from itertools import pairwise
from math import ceil, log2


def first_bad(count: int, good: Callable[[int], bool]) -> int:
    """A bad point whose forerunner is good, of `count` points; `good` is asked between the ends."""
    low, high = 0, count - 1
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if good(middle) else (low, middle)
    return high


def looks(count: int) -> int:
    """How many points at most are looked at, both ends included."""
    return count if count <= 2 else 2 + ceil(log2(count - 1))


def turns(verdicts: Sequence[bool]) -> list[int]:
    """Every point that is bad after a good one."""
    return [at + 1 for at, (one, next_) in enumerate(pairwise(verdicts)) if one and not next_]
