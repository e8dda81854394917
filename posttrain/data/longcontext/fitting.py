"""Fitting a length: how many units of something may be taken so that it stays within a limit."""

import math
from collections.abc import Callable

_TRIES = 16


def largest(length: Callable[[int], int], limit: int, *, least: int = 0) -> int:
    """A count of units, at least `least`, whose length is at most `limit` and near it.

    Near: within two units or 0.5 % of `limit`, if length grows evenly. Asking for a length costs
    about what the length is, so it is asked for a few times. ValueError if `least` do not fit.
    """
    base = length(least)
    if base > limit:
        raise ValueError(f"{least} units have {base} tokens and there is room for {limit}")
    count, reached, ahead = least, base, 8
    for _ in range(_TRIES):
        found = length(count + ahead)
        each = max(found - base, 1) / (count + ahead - least)
        if found <= limit:
            count, reached = count + ahead, found
            ahead = int((limit - reached) / each)
        else:
            ahead -= max(1, math.ceil((found - limit) / each))
        if ahead <= 0 or limit - reached <= max(2 * each, limit / 200):
            break
    return count
