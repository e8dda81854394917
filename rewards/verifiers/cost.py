"""How large a parsed expression would grow if evaluated, told without evaluating it."""

import math

from sympy import Basic, Pow, Rational, factorial

LARGEST = 100_000.0
"""Decimal digits up to which numbers are evaluated."""


def too_large(expression: Basic) -> bool:
    """Whether evaluating `expression` would make a number of more than `LARGEST` digits."""
    return any(_digits(part) > LARGEST for part in _parts(expression))


def _parts(expression: Basic) -> list[Basic]:
    parts, found = [expression], []
    while parts:
        part = parts.pop()
        found.append(part)
        parts += [child for child in part.args if isinstance(child, Basic)]
    return found


def _digits(part: Basic) -> float:
    if isinstance(part, Pow):
        exponent = _size(part.args[1])
        return exponent * max(_log10(part.args[0]), 0.3) if exponent > 1 else 0.0
    if isinstance(part, factorial):
        size = _size(part.args[0])
        return size * math.log10(size) if 1 < size < math.inf else size
    return 0.0


def _size(part: Basic) -> float:
    """An upper bound of the absolute value of a constant; 0 for what is not constant."""
    if part.free_symbols:
        return 0.0
    exponent = _log10(part)
    return 10.0**exponent if exponent < 300 else math.inf


def _log10(part: Basic) -> float:
    if isinstance(part, Rational):
        return _bits(int(part.p)) - min(_bits(int(part.q)), 0.0)
    if isinstance(part, Pow | factorial):
        return max(_digits(part), 0.0)
    return sum(max(_log10(child), 0.0) for child in part.args if isinstance(child, Basic))


def _bits(number: int) -> float:
    return (abs(number).bit_length()) * math.log10(2) if number else 0.0
