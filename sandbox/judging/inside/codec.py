"""Values as typed data: no code, no class of the program's own, bounded in size and depth.

A value travels as a tree of JSON: None, booleans, small integers, floats and strings stand for
themselves, all else is a list that begins with a tag, e.g. ["t", 1, 2] for a tuple. Types are
exact at the other end: of a subclass the plain value travels, unless it has an equality of its own,
which makes it an object and no data. Both ends share this module; only
`parse` and `checked` are meant for what an untrusted end has sent to the service.
"""

import json
import sys
from collections import Counter, OrderedDict, defaultdict
from collections.abc import Callable
from typing import Any

DEPTH = 100
BYTES = 8 * 2**20
NODES = 600_000
"""Of one message. What is larger or deeper is refused."""

SMALL = 2**63
_DIGITS = 4000
_SEQUENCES: dict[Any, str] = {list: "l", tuple: "t", set: "s", frozenset: "f"}
_PLAIN: tuple[Any, ...] = (int, float, str, bytes, tuple, list, dict, set, frozenset)
_DICTS = (dict, OrderedDict, defaultdict, Counter)


class Refused(Exception):
    """Not a value that travels; says why."""


Foreign = Callable[[Any], Any] | None
"""Makes a tree of an object that is not data, or an object of such a tree; None refuses."""


def encode(value: Any, foreign: Foreign = None, depth: int = 0) -> Any:
    """The tree of `value`. Refused if it is too deep or of no known type."""
    kind = type(value)
    if value is None or kind is bool or kind is str or kind is float:
        return value
    if kind is int:
        return value if -SMALL < value < SMALL else ["i", hex(value)]
    if kind not in _SEQUENCES and kind not in _DICTS:
        return _encode_rare(value, foreign, depth)
    if depth >= DEPTH:
        raise Refused("too deep")
    if kind in _SEQUENCES:
        return [_SEQUENCES[kind], *[encode(item, foreign, depth + 1) for item in value]]
    tag = "n" if kind is Counter else "d"  # A counter has 0 of what it has none of.
    return [tag, *[encode(part, foreign, depth + 1) for pair in value.items() for part in pair]]


def _encode_rare(value: Any, foreign: Foreign, depth: int) -> Any:
    kind = type(value)
    if kind is bytes or kind is bytearray:
        return ["b" if kind is bytes else "y", value.hex()]
    if kind is complex:
        return ["c", value.real, value.imag]
    if kind is _loaded("decimal", "Decimal"):
        return ["D", str(value)]
    if kind is _loaded("fractions", "Fraction"):
        return ["F", hex(value.numerator), hex(value.denominator)]
    if issubclass(kind, _loaded("numpy", "generic") or ()):
        return _encode_item(value, foreign)
    if foreign is not None:
        return foreign(value)
    return encode(plain(value), None, depth)


def plain(value: Any) -> Any:
    """The value of a builtin type that a subclass's stands for, as a named tuple a tuple's.

    Refused if it stands for none, or says itself what it is equal to.
    """
    kind = type(value)
    for base in _PLAIN:
        if issubclass(kind, base) and kind.__eq__ is base.__eq__:
            return base(value)
    raise Refused("a value of type " + kind.__name__)


def _loaded(module: str, name: str) -> Any:
    """A class, if its module has been imported: else no value can be of it."""
    return getattr(sys.modules.get(module), name, None)


def _encode_item(scalar_of_numpy: Any, foreign: Foreign) -> Any:
    """A scalar of numpy by its value, if Python has one that is equal."""
    item = scalar_of_numpy.item()
    if type(item) in (bool, int, float, complex, str, bytes):
        return encode(item)
    if foreign is not None:
        return foreign(scalar_of_numpy)
    raise Refused("a scalar of numpy")


def write(tree: Any) -> bytes:
    """The message that carries a tree."""
    return json.dumps(tree, separators=(",", ":")).encode("ascii")


def parse(message: bytes) -> Any:
    """JSON of an untrusted message, of any shape. Refused if it is too large, or is none."""
    if len(message) > BYTES or message.count(b",") + message.count(b"[") > NODES:
        raise Refused("too large")
    try:
        return json.loads(message)
    except (ValueError, RecursionError):
        raise Refused("not JSON") from None


def checked(tree: Any, depth: int = 0) -> Any:
    """`tree` itself if it is one of data alone. Refused otherwise."""
    if _is_bare(tree):
        return tree
    if depth >= DEPTH:
        raise Refused("too deep")
    tag, parts = tree[0], tree[1:]
    if tag not in _BUILDERS:
        if tag == "o":
            raise Refused("an object, not data")
        scalar(tree)
        return tree
    if tag in ("d", "n") and len(parts) % 2:
        raise Refused("malformed")
    for part in parts:
        checked(part, depth + 1)
    return tree


def _is_bare(tree: Any) -> bool:
    """Whether `tree` stands for itself; Refused if it has no tag either."""
    if tree is None or isinstance(tree, bool | int | float | str):
        return True
    if not isinstance(tree, list) or not tree or not isinstance(tree[0], str):
        raise Refused("no tag")
    return False


def scalar(tree: Any) -> Any:
    """The value of a tree tagged as a number or as bytes. Refused if it is malformed."""
    try:
        return _SCALARS[tree[0]](*tree[1:])
    except (ValueError, TypeError, KeyError, ArithmeticError, AttributeError):
        raise Refused("malformed") from None


def _complex(real: Any, imaginary: Any) -> complex:
    return complex(float(real), float(imaginary))


def _integer(text: Any) -> int:
    return int(text, 16)


def _bytearray(text: Any) -> bytearray:
    return bytearray.fromhex(text)


def _decimal(text: Any) -> Any:
    from decimal import Decimal  # Where it is not used it costs nothing.

    if not isinstance(text, str) or len(text) > _DIGITS:
        raise ValueError
    return Decimal(text)


def _fraction(numerator: Any, denominator: Any) -> Any:
    from fractions import Fraction

    if max(len(numerator), len(denominator)) > _DIGITS:  # To reduce it takes their square.
        raise ValueError
    return Fraction(_integer(numerator), _integer(denominator))


_SCALARS: dict[str, Callable[..., Any]] = {
    "i": _integer, "b": bytes.fromhex, "y": _bytearray, "c": _complex,
    "D": _decimal, "F": _fraction,
}  # fmt: skip


def decode(tree: Any, foreign: Foreign = None, depth: int = 0) -> Any:
    """The value of a tree. Refused if it is malformed, too deep, or an object and none is known."""
    if _is_bare(tree):
        return tree
    if depth >= DEPTH:
        raise Refused("too deep")
    tag = tree[0]
    if tag == "o" and foreign is not None:
        return foreign(tree)
    if tag not in _BUILDERS:
        return scalar(tree)
    parts = [decode(part, foreign, depth + 1) for part in tree[1:]]
    try:
        return _BUILDERS[tag](parts)
    except (TypeError, ValueError):
        raise Refused("malformed") from None


def _dict(parts: Any) -> Any:
    return dict(zip(parts[::2], parts[1::2], strict=True))


def _counter(parts: Any) -> Any:
    return Counter(_dict(parts))


_BUILDERS: dict[str, Callable[[Any], Any]] = {
    "l": list, "t": tuple, "s": set, "f": frozenset, "d": _dict, "n": _counter,
}  # fmt: skip
