"""Operations on values: exact while both are Fractions, else of an mpmath context.

Each raises Undefined where there is no value, and TooCostly before making a number too long.
"""

import math
from collections.abc import Callable
from fractions import Fraction
from typing import Any

from rewards.verifiers.math.tokens import TooCostly

BITS = 2_000_000
"""Longest exact number, in bits."""
LARGEST_FACTORIAL = 20_000
_HUGE = 10**12


class Undefined(Exception):
    """The tree has no value there, as `1/0`."""


def wide(context: Any, value: Any) -> Any:
    """`value` as a number of `context`."""
    if isinstance(value, Fraction):
        return context.mpf(value.numerator) / value.denominator
    return value


def checked(context: Any, value: Any) -> Any:
    """`value`, if it is finite and not too long."""
    if isinstance(value, Fraction):
        if max(value.numerator.bit_length(), value.denominator.bit_length()) > BITS:
            raise TooCostly("a number is too long")
        return value
    if context.isnan(value) or context.isinf(value):
        raise Undefined("no number")
    return value


def _both(context: Any, one: Any, other: Any) -> tuple[Any, Any]:
    if isinstance(one, Fraction) and isinstance(other, Fraction):
        return one, other
    return wide(context, one), wide(context, other)


def add(context: Any, *values: Any) -> Any:
    """The sum of one value or more."""
    total = values[0]
    for value in values[1:]:
        one, other = _both(context, total, value)
        total = one + other
    return total


def multiply(context: Any, *values: Any) -> Any:
    """The product of one value or more."""
    total = values[0]
    for value in values[1:]:
        one, other = _both(context, total, value)
        total = checked(context, one * other)
    return total


def _divide(context: Any, one: Any, other: Any) -> Any:
    one, other = _both(context, one, other)
    return one / other


def _power(context: Any, base: Any, exponent: Any) -> Any:
    if isinstance(base, Fraction) and isinstance(exponent, Fraction):
        if exponent.denominator == 1:
            return _whole_power(base, exponent.numerator)
        if base < 0 and exponent.denominator % 2:
            sign = -1 if exponent.numerator % 2 else 1
            return multiply(context, Fraction(sign), _power(context, -base, exponent))
        if (root := _exact_root(base, exponent.denominator)) is not None:
            return _whole_power(root, exponent.numerator)
    if base == 0:
        return Fraction(0) if _positive(context, exponent) else _undefined("0 to that power")
    base, exponent = wide(context, base), wide(context, exponent)
    _bounded(context, abs(context.log(abs(base))) * abs(exponent))
    return context.power(base, exponent)


def _whole_power(base: Fraction, exponent: int) -> Fraction:
    if abs(exponent) > 1 and abs(base) not in (0, 1):
        size = max(base.numerator.bit_length(), base.denominator.bit_length(), 2) - 1
        if abs(exponent) > BITS or abs(exponent) * size > BITS:
            raise TooCostly("a power is too large")
    return base**exponent if base or exponent > 0 else _undefined("0 to that power")


def _exact_root(base: Fraction, degree: int) -> Fraction | None:
    """The rational root of a positive base, if it has one that is quickly found."""
    if base <= 0 or degree > 64 or base.numerator.bit_length() > 512:
        return None
    if base.denominator.bit_length() > 512:
        return None
    top, bottom = (_integer_root(n, degree) for n in (base.numerator, base.denominator))
    return None if top is None or bottom is None else Fraction(top, bottom)


def _integer_root(value: int, degree: int) -> int | None:
    low, high = 0, 1 << (value.bit_length() // degree + 1)
    while low < high:
        middle = (low + high) // 2
        if middle**degree < value:
            low = middle + 1
        else:
            high = middle
    return low if low**degree == value else None


def _positive(context: Any, value: Any) -> bool:
    return bool(context.re(wide(context, value)) > 0)


def _undefined(what: str) -> Any:
    raise Undefined(what)


def _bounded(context: Any, size: Any) -> None:
    if size > _HUGE:
        raise TooCostly("a power is too large")


def _root(context: Any, value: Any, degree: Any) -> Any:
    if degree == 0:
        raise Undefined("root of degree 0")
    odd = isinstance(degree, Fraction) and degree.denominator == 1 and degree.numerator % 2 == 1
    if odd and context.im(wide(context, value)) == 0 and wide(context, value) < 0:
        return _negative(context, _power(context, _negative(context, value), 1 / degree))
    return _power(context, value, _divide(context, Fraction(1), degree))


def _negative(context: Any, value: Any) -> Any:
    return -value


def _factorial(context: Any, value: Any) -> Any:
    if isinstance(value, Fraction) and value.denominator == 1:
        if value < 0:
            raise Undefined("factorial of a negative number")
        if value > LARGEST_FACTORIAL:
            raise TooCostly("a factorial is too large")
        return Fraction(math.factorial(int(value)))
    _bounded(context, abs(wide(context, value)))
    return context.factorial(wide(context, value))


def _double_factorial(context: Any, value: Any) -> Any:
    if not isinstance(value, Fraction) or value.denominator != 1 or value < 0:
        raise Undefined("double factorial")
    if value > LARGEST_FACTORIAL:
        raise TooCostly("a factorial is too large")
    return Fraction(math.prod(range(int(value), 0, -2)))


def _binomial(context: Any, n: Any, k: Any) -> Any:
    if isinstance(k, Fraction) and k.denominator == 1 and isinstance(n, Fraction):
        if k < 0:
            return Fraction(0)
        if n.denominator == 1 and n >= 0:
            if min(k, n - k) > LARGEST_FACTORIAL:
                raise TooCostly("a binomial is too large")
            return Fraction(math.comb(int(n), int(k)))
        if k < 200:
            return Fraction(
                math.prod((n - j for j in range(int(k))), start=Fraction(1))
                / math.factorial(int(k))
            )
    n, k = wide(context, n), wide(context, k)
    _bounded(context, abs(n) + abs(k))
    return context.binomial(n, k)


def _logarithm(context: Any, value: Any, base: Any = None) -> Any:
    if value == 0 or base in (0, 1):
        raise Undefined("logarithm")
    result = context.log(wide(context, value))
    return result if base is None else result / context.log(wide(context, base))


def _exponential(context: Any, value: Any) -> Any:
    value = wide(context, value)
    _bounded(context, abs(value))
    return context.exp(value)


def _absolute(context: Any, value: Any) -> Any:
    return abs(value)


def _whole(rounding: Callable[[Any], int]) -> Callable[[Any, Any], Any]:
    def rounded(context: Any, value: Any) -> Any:
        if not isinstance(value, Fraction):
            if context.im(value) != 0:
                raise Undefined("rounding a complex number")
            _bounded(context, abs(value))
            near = context.nint(context.re(value))
            if abs(value - near) < context.mpf(10) ** (10 - context.dps):
                return Fraction(int(near))
            return Fraction(
                int((context.floor if rounding is math.floor else context.ceil)(context.re(value)))
            )
        return Fraction(rounding(value))

    return rounded


def _modulo(context: Any, one: Any, other: Any) -> Any:
    if not (isinstance(one, Fraction) and isinstance(other, Fraction)) or other == 0:
        raise Undefined("modulo")
    return one % other


def _integers(function: Callable[..., int]) -> Callable[..., Any]:
    def applied(context: Any, *values: Any) -> Any:
        if not all(isinstance(v, Fraction) and v.denominator == 1 for v in values):
            raise Undefined("of no integers")
        return Fraction(function(*(int(v) for v in values)))

    return applied


def _extreme(choose: Callable[..., Any]) -> Callable[..., Any]:
    def chosen(context: Any, *values: Any) -> Any:
        if any(context.im(wide(context, value)) != 0 for value in values):
            raise Undefined("of complex numbers")
        return choose(values, key=lambda value: wide(context, value))

    return chosen


def _analytic(name: str) -> Callable[[Any, Any], Any]:
    def applied(context: Any, value: Any) -> Any:
        value = wide(context, value)
        if abs(value) > _HUGE:
            raise TooCostly(f"{name} of a large number")
        return getattr(context, name)(value)

    return applied


_ANALYTIC = "sin cos tan cot sec csc sinh cosh tanh coth arcsin arccos arctan arccot arcsec arccsc"
OPERATIONS: dict[str, Callable[..., Any]] = {
    "+": add,
    "*": multiply,
    "/": _divide,
    "^": _power,
    "neg": _negative,
    "root": _root,
    "!": _factorial,
    "!!": _double_factorial,
    "binom": _binomial,
    "%": lambda context, value: _divide(context, value, Fraction(100)),
    "abs": _absolute,
    "floor": _whole(math.floor),
    "ceil": _whole(math.ceil),
    "mod": _modulo,
    "gcd": _integers(math.gcd),
    "lcm": _integers(math.lcm),
    "max": _extreme(max),
    "min": _extreme(min),
    "ln": _logarithm,
    "log": _logarithm,
    "exp": _exponential,
    "tr": lambda context, value: _undefined("trace"),
    **{name: _analytic(name.replace("arc", "a")) for name in _ANALYTIC.split()},
}
