"""Wilson's score interval for a counted rate, at 95 % (E. B. Wilson, JASA 22 (1927) 209)."""

from math import sqrt

_Z = 1.959964
"""Two-sided 95 % quantile of the normal distribution."""


def interval(hits: int, total: int) -> tuple[float, float]:
    """Lower and upper bound of the rate behind `hits` of `total`; (0, 1) where none was tried."""
    if not total:
        return 0.0, 1.0
    rate, weight = hits / total, _Z**2 / total
    middle = (rate + weight / 2) / (1 + weight)
    half = _Z * sqrt(rate * (1 - rate) / total + weight / (4 * total)) / (1 + weight)
    low = max(middle - half, 0.0) if hits else 0.0
    return low, min(middle + half, 1.0) if hits < total else 1.0
