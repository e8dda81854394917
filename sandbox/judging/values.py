"""Values a program returned against expected ones, compared as trees of the codec.

No object is ever made of what a program sent, so nothing of its making is called and no set or
dict is built of keys it chose. Two rules: `python`, what `==` says of builtin types; `json`, for
expectations written in JSON: a list stands for a tuple too, a key "1" for 1, and true is not 1.
"""

import json
from decimal import Decimal
from itertools import count
from typing import Any, Literal

from sandbox.judging.inside.codec import scalar
from sandbox.judging.output import close
from sandbox.schema import Checker

Rule = Literal["python", "json"]
_HUGE = 400
"""Power of ten beyond which a Decimal is not written out as a ratio."""

_NANS = count()


def equal(expected: Any, got: Any, rule: Rule, checker: Checker | None = None) -> bool:
    """Whether two trees of data are equal; numbers within the checker's tolerance, if there is one.

    Both have passed `checked`, which bounds their depth.
    """
    if isinstance(expected, list) and isinstance(got, list):
        left, right = _kind(expected, rule), _kind(got, rule)
        if left != right or left not in ("sequence", "tuple", "dict"):
            return left == right and _key(expected, rule) == _key(got, rule)
        if left == "dict":
            return _equal_dicts(expected, got, rule, checker)
        pairs = zip(expected[1:], got[1:], strict=False)
        return len(expected) == len(got) and all(equal(a, b, rule, checker) for a, b in pairs)
    if checker is not None and type(expected) in (int, float) and type(got) in (int, float):
        return close(checker, _as_float(expected), _as_float(got))
    return _key(expected, rule) == _key(got, rule)


def _equal_dicts(expected: Any, got: Any, rule: Rule, checker: Checker | None) -> bool:
    left, right = _items(expected, rule), _items(got, rule)
    return left.keys() == right.keys() and all(
        equal(left[key], right[key], rule, checker) for key in left
    )


def _items(tree: Any, rule: Rule) -> dict[str, Any]:
    keys = (_dict_key(key, rule) for key in tree[1::2])
    return dict(zip(keys, tree[2::2], strict=True))


def _dict_key(tree: Any, rule: Rule) -> str:
    if rule == "json" and type(tree) is int:
        tree = str(tree)
    return _key(tree, rule)


def _kind(tree: Any, rule: Rule) -> str:
    tag = tree[0]
    if tag == "l" or (tag == "t" and rule == "json"):
        return "sequence"
    return {
        "t": "tuple",
        "d": "dict",
        "n": "dict",
        "s": "set",
        "f": "set",
        "b": "bytes",
        "y": "bytes",
    }.get(tag, "number")


def _key(tree: Any, rule: Rule) -> str:
    """Text that two trees share if and only if they are equal; not-a-number equals itself not."""
    if isinstance(tree, str):
        return json.dumps(tree)
    if tree is None or (isinstance(tree, bool) and rule == "json"):
        return str(tree)
    if not isinstance(tree, list):
        return _number_key(tree)
    kind, parts = _kind(tree, rule), tree[1:]
    if kind == "dict":
        pairs = sorted(f"{key}:{_key(value, rule)}" for key, value in _items(tree, rule).items())
        return f"dict({','.join(pairs)})"
    if kind == "set":
        return f"set({','.join(sorted({_key(part, rule) for part in parts}))})"
    if kind == "bytes":
        return f"bytes({scalar(tree).hex()})"
    if kind == "number":
        return _number_key(scalar(tree))
    return f"{kind}({','.join(_key(part, rule) for part in parts)})"


def _number_key(number: Any) -> str:
    """Equal numbers of any two types have one key, as they have one hash."""
    if isinstance(number, complex):
        real = _number_key(number.real)
        return real if number.imag == 0 else f"{real}+{_number_key(number.imag)}j"
    if isinstance(number, Decimal) and not number.is_finite():
        number = float("nan" if number.is_nan() else str(number))
    if number != number:
        return f"nan {next(_NANS)}"
    near = _as_float(number)
    if near == number:  # Exactly, in Python.
        return (near + 0.0).hex()  # Without the sign of a zero.
    if isinstance(number, Decimal) and abs(number.adjusted()) > _HUGE:
        sign, digits, exponent = number.as_tuple()
        written = "".join(map(str, digits))
        assert isinstance(exponent, int)
        spare = len(written) - len(written.rstrip("0"))
        return f"{sign} {written.rstrip('0')}e{exponent + spare}"
    numerator, denominator = number.as_integer_ratio()
    return f"{numerator:x}/{denominator:x}"


def _as_float(number: Any) -> float:
    try:
        return float(number)
    except OverflowError:
        return float("inf")
