"""Wilson's score interval for a rate that was counted, at 95 %."""

from math import sqrt

_Z = 1.959964
"""Two-sided 95 % quantile of the normal distribution."""


def interval(hits: int, total: int) -> tuple[float, float]:
    """Lower and upper bound of the rate behind `hits` of `total`; (0, 1) where none was tried.

    E. B. Wilson, J. Am. Stat. Assoc. 22 (1927) 209.
    """
    if not total:
        return 0.0, 1.0
    share, square = hits / total, _Z**2 / total
    middle = share + square / 2
    half = _Z * sqrt(share * (1 - share) / total + square / (4 * total))
    low, high = (middle - half) / (1 + square), (middle + half) / (1 + square)
    return max(low, 0.0) if hits else 0.0, min(high, 1.0) if hits < total else 1.0
