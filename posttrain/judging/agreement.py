"""How far two orders of the same things agree: rank correlations of lists of numbers, with ties.

Where one of the lists is all ties there is no order to agree with, and the correlation is 0: a
judge that cannot tell things apart has not judged them.
"""

import math
from collections.abc import Sequence
from itertools import combinations


def spearman(left: Sequence[float], right: Sequence[float]) -> float:
    """Spearman's rho: the correlation of ranks, those of ties averaged; in [-1, 1]."""
    return _pearson(_ranks(left), _ranks(right))


def kendall(left: Sequence[float], right: Sequence[float]) -> float:
    """Kendall's tau-b: pairs in the same order less those in opposite order, ties allowed for."""
    _check(left, right)
    signs = [
        (_sign(a - c), _sign(b - d))
        for (a, b), (c, d) in combinations(zip(left, right, strict=True), 2)
    ]
    ordered = [sum(map(abs, each)) for each in zip(*signs, strict=True)]
    if 0 in ordered:
        return 0.0
    return sum(a * b for a, b in signs) / math.sqrt(ordered[0] * ordered[1])


def _ranks(values: Sequence[float]) -> list[float]:
    """Ranks from 1; the values that are one have the mean of their ranks."""
    ordered = sorted(values)
    first = {value: ordered.index(value) for value in set(values)}
    return [first[value] + (ordered.count(value) + 1) / 2 for value in values]


def _pearson(left: Sequence[float], right: Sequence[float]) -> float:
    _check(left, right)
    a, b = _centred(left), _centred(right)
    spread = math.sqrt(math.fsum(x * x for x in a) * math.fsum(y * y for y in b))
    return math.fsum(x * y for x, y in zip(a, b, strict=True)) / spread if spread else 0.0


def _centred(values: Sequence[float]) -> list[float]:
    mean = math.fsum(values) / len(values)
    return [value - mean for value in values]


def _check(left: Sequence[float], right: Sequence[float]) -> None:
    if len(left) != len(right) or len(left) < 2:
        raise ValueError(f"{len(left)} and {len(right)} values: give two or more, as many of each")


def _sign(value: float) -> int:
    return (value > 0) - (value < 0)
