"""The value of a tree at a sample of its variables: exact for rationals, else to many digits.

A sample gives each name a value of its own, so equal trees agree at every sample and different
ones, but for chance in one of many millions, do not. Nothing large is evaluated: TooCostly.
"""

import math
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from fractions import Fraction
from functools import lru_cache
from hashlib import blake2b
from typing import Any

from mpmath import MPContext  # type: ignore[import-untyped]

from rewards.verifiers.math.arithmetic import (
    OPERATIONS,
    Undefined,
    add,
    checked,
    multiply,
    wide,
)
from rewards.verifiers.math.nodes import REGIONS, Node, Number, Operation, Symbol
from rewards.verifiers.math.tokens import TooCostly, Unreadable

LONGEST_SERIES = 5_000
MOST_STEPS = 100_000
MOST_WORK = 10**11
"""Most bits times bits of the exact fractions that one comparison works out: under a second."""

SAMPLES = tuple(range(6))
WHOLE_SAMPLES = (1, 6, 7)
"""Those in which each variable is an integer."""


class Allowance:
    """Work that a comparison may still do, in bits times bits."""

    def __init__(self, left: float) -> None:
        self.left = left

    def spend(self, work: float) -> None:
        """TooCostly if that is more than is left."""
        self.left -= work
        if self.left < 0:
            raise TooCostly("too much exact arithmetic")


_ALLOWANCE: ContextVar[Allowance | None] = ContextVar("allowance", default=None)


@contextmanager
def allowance(work: float = MOST_WORK) -> Iterator[None]:
    """While entered, all evaluators together may do this much work."""
    token = _ALLOWANCE.set(Allowance(work))
    try:
        yield
    finally:
        _ALLOWANCE.reset(token)


class Evaluator:
    """Evaluates trees at sample number `sample` with `digits` decimal digits."""

    def __init__(self, sample: int, digits: int) -> None:
        self._sample = sample
        self.context: Any = _context(digits)
        self._bound: dict[str, Any] = {}
        self._steps = 0
        self._allowance = _ALLOWANCE.get() or Allowance(MOST_WORK)

    @contextmanager
    def binding(self, name: str, value: int) -> Iterator[None]:
        """While entered, the variable `name` has this value."""
        before = self._bound.get(name)
        self._bound[name] = Fraction(value)
        try:
            yield
        finally:
            if before is None:
                self._bound.pop(name, None)
            else:
                self._bound[name] = before

    def value(self, node: Node) -> Any:
        """A Fraction or a number of mpmath. Undefined, TooCostly, or Unreadable if it has none."""
        self._steps += 1
        if self._steps > MOST_STEPS:
            raise TooCostly("too many steps")
        match node:
            case Number(value, _):
                return value
            case Symbol(name):
                return self._symbol(name)
            case Operation(name, arguments):
                return self._operation(name, arguments)
        raise Unreadable("no value")

    def _symbol(self, name: str) -> Any:
        if name in self._bound:
            return self._bound[name]
        if name == "pi":
            return +self.context.pi
        if name == "e":
            return +self.context.e
        if name in ("i", "imath"):
            return self.context.mpc(0, 1)
        if name == "infty":
            raise Undefined("infinity")
        if name in ("circ", "?", "...") or name in REGIONS or name.startswith("text:"):
            raise Unreadable(f"{name} is no value")
        return drawn(name, self._sample)

    def _operation(self, name: str, arguments: Sequence[Node]) -> Any:
        if name.startswith(("sum:", "prod:")):
            return self._series(name, arguments)
        if name == "mod" and isinstance(arguments[0], Operation) and arguments[0].name == "^":
            return self._modular_power(arguments[0], arguments[1])
        values = [self.value(argument) for argument in arguments]
        if name.startswith(("call:", "index:")):
            return self._unknown(name, values)
        if (operation := OPERATIONS.get(name)) is None:
            raise Unreadable(f"{name} is no operation")
        self._allowance.spend(_work(name, values))
        try:
            result = operation(self.context, *values)
        except (ArithmeticError, ValueError):
            raise Undefined(name) from None
        except TypeError:
            raise Unreadable(f"{name} of so many") from None
        return checked(self.context, result)

    def _modular_power(self, power: Operation, modulus: Node) -> Any:
        """A power whose remainder is asked need not be evaluated."""
        numbers = [self.value(node) for node in (*power.arguments, modulus)]
        whole = all(isinstance(v, Fraction) and v.denominator == 1 for v in numbers)
        if not whole or numbers[1] < 0 or numbers[2] == 0:
            raise Undefined("modulo")
        base, times, below = map(_bits, numbers)
        self._allowance.spend((base + 20 * times * below) * below)
        return Fraction(pow(*(int(v) for v in numbers)))

    def _unknown(self, name: str, values: Sequence[Any]) -> Any:
        """The value of an unknown function: drawn by its name and arguments."""
        if all(isinstance(value, Fraction) for value in values):
            key = ",".join(f"{v.numerator:x}/{v.denominator:x}" for v in values)
        else:
            key = ",".join(
                self.context.nstr(self.context.mpc(wide(self.context, v)), 30) for v in values
            )
        return drawn(f"{name}({key})", self._sample)

    def _series(self, name: str, arguments: Sequence[Node]) -> Any:
        kind, _, index = name.partition(":")
        first, last = (self.value(bound) for bound in arguments[1:])
        if not all(isinstance(v, Fraction) and v.denominator == 1 for v in (first, last)):
            raise Undefined("bounds that are no integers")
        if last - first > LONGEST_SERIES:
            raise TooCostly("a series is too long")
        total: Any = Fraction(0 if kind == "sum" else 1)
        for at in range(int(first), int(last) + 1):
            with self.binding(index, at):
                term = self.value(arguments[0])
            self._allowance.spend(_bits(total) * _bits(term))
            total = (add if kind == "sum" else multiply)(self.context, total, term)
        return total


def _bits(value: Any) -> int:
    if not isinstance(value, Fraction):
        return 1
    return value.numerator.bit_length() + value.denominator.bit_length()


def _work(name: str, values: Sequence[Any]) -> float:
    """What takes out common factors goes by the product of lengths."""
    exact = [value for value in values if isinstance(value, Fraction)]
    if len(exact) < 2 or name not in ("+", "*", "/", "gcd", "lcm", "mod"):
        return 0
    if name in ("+", "*"):
        fractions = any(value.denominator != 1 for value in exact)
        return float(sum(map(_bits, exact)) ** 2) if fractions else 0
    return float(math.prod(map(_bits, exact[:2])) * (len(exact) - 1))


@lru_cache(maxsize=64)
def _context(digits: int) -> Any:
    context = MPContext()
    context.dps = digits
    return context


def drawn(name: str, sample: int) -> Fraction:
    """The value that sample number `sample` gives to `name`: small, never 0, 1 or -1."""
    digest = int.from_bytes(blake2b(f"{sample}|{name}".encode(), digest_size=8).digest(), "big")
    if sample in WHOLE_SAMPLES:
        return Fraction(3 + digest % 17)
    over = 2 + 7 * (digest % 5 + 1)
    size = Fraction(over + 1 + digest // 5 % 991, over)
    if sample == 5:
        return 1 / (size + 1)
    negative = sample == 3 or (sample == 4 and digest >> 40 & 1)
    return -size if negative else size
