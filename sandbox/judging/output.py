"""What a program printed against what was expected, byte by byte unless a number says otherwise."""

import re
from collections.abc import Callable, Mapping, Sequence
from decimal import Decimal, InvalidOperation
from math import isinf
from types import MappingProxyType

from sandbox.schema import Checker

_NUMBER = re.compile(rb"[+-]?(\d+(\.\d*)?|\.\d+)([eE][+-]?\d{1,9})?", re.ASCII)
_FLOAT = re.compile(rb"[+-]?(nan|inf|infinity)", re.ASCII | re.IGNORECASE)


def agrees(checker: Checker, expected: str, got: bytes) -> bool:
    """Whether `got` is the output that the test expects."""
    return _CHECKS[checker.type](checker, expected.encode(), got)


def _tokens(_: Checker, expected: bytes, got: bytes) -> bool:
    return _all(_same_token, expected.split(), got.split())


def _lines(_: Checker, expected: bytes, got: bytes) -> bool:
    left, right = expected.strip().splitlines(), got.strip().splitlines()
    return _all(_same_line, left, right)


def _same_line(expected: bytes, got: bytes) -> bool:
    expected, got = expected.strip(), got.strip()
    return expected == got or _all(_same_number, expected.split(), got.split())


def _exact(_: Checker, expected: bytes, got: bytes) -> bool:
    return expected.rstrip(b"\r\n") == got.rstrip(b"\r\n")


def _floats(checker: Checker, expected: bytes, got: bytes) -> bool:
    def same(left: bytes, right: bytes) -> bool:
        return _same_token(left, right) or _near(checker, left, right)

    return _all(same, expected.split(), got.split())


def _all(
    same: Callable[[bytes, bytes], bool], expected: Sequence[bytes], got: Sequence[bytes]
) -> bool:
    return len(expected) == len(got) and all(map(same, expected, got))


def _same_token(expected: bytes, got: bytes) -> bool:
    return expected == got or _same_number(expected, got)


def _same_number(expected: bytes, got: bytes) -> bool:
    """Whether both are decimal numerals of one number; no rounding."""
    if not (_NUMBER.fullmatch(expected) and _NUMBER.fullmatch(got)):
        return False
    try:
        return Decimal(expected.decode()) == Decimal(got.decode())
    except InvalidOperation:  # An exponent beyond all bounds.
        return False


def _near(checker: Checker, expected: bytes, got: bytes) -> bool:
    if not all(_NUMBER.fullmatch(text) or _FLOAT.fullmatch(text) for text in (expected, got)):
        return False
    left, right = float(expected), float(got)
    if isinf(left) and not (_FLOAT.fullmatch(expected) and _FLOAT.fullmatch(got)):
        return False  # A numeral beyond all floats is near none but itself.
    return close(checker, left, right)


def close(checker: Checker, expected: float, got: float) -> bool:
    """Whether `got` is within the absolute or the relative tolerance; not-a-number never is."""
    if expected == got:
        return True
    if abs(expected) == float("inf"):
        return False
    return abs(expected - got) <= max(checker.abs, checker.rel * abs(expected))


_CHECKS: Mapping[str, Callable[[Checker, bytes, bytes], bool]] = MappingProxyType(
    {"tokens": _tokens, "lines": _lines, "exact": _exact, "float": _floats}
)
