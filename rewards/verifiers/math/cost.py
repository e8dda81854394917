"""What the large numbers of a tree would weigh together, told without evaluating any."""

import math

from rewards.verifiers.math.nodes import Node, Number, Operation, children, walk

HEAVIEST = 3_000_000
"""Most bits of all large numbers of one answer, which take some tenths of a second."""
_SMALL = 10_000
_INEXACT = 500
_MOST = 1e15


def too_heavy(node: Node) -> bool:
    """Whether evaluating `node` exactly is more than an answer is worth."""
    return _weighed(node)[1] > HEAVIEST


def _weighed(node: Node) -> tuple[float, float]:
    """The bits of the value, at most about, and what all large values below weigh together."""
    if isinstance(node, Number):
        parts = abs(node.value.numerator), node.value.denominator
        return max(math.log2(part) if part else 0 for part in parts), 0
    if isinstance(node, Operation) and node.name == "mod" and _is_power(node.arguments[0]):
        return _weighed(node.arguments[1])  # The power is not evaluated: see values.py.
    below = [_weighed(child) for child in children(node)]
    weight = sum(part[1] for part in below)
    if not isinstance(node, Operation):
        return _INEXACT, weight
    sizes = [part[0] for part in below]
    size = min(_size(node, sizes), _MOST)
    return size, weight + (size if size > _SMALL else 0) + _division(node.name, sizes)


def _is_power(node: Node) -> bool:
    return isinstance(node, Operation) and node.name == "^"


def _size(node: Operation, sizes: list[float]) -> float:
    match node.name, node.arguments:
        case "^", (_, exponent):
            return _power(exponent, *sizes)
        case "!" | "!!", (Number(value, _),):
            return float(value) * int(value).bit_length() if 1 < value < _MOST else 0
        case "+", _:
            return sum(sizes) + 1
        case (("neg" | "abs" | "%" | "*" | "/" | "gcd" | "lcm" | "mod"), _):
            return sum(sizes)
    return _INEXACT


def _power(exponent: Node, base: float, bits: float) -> float:
    """Of a power with an exponent that is no integer only digits are found."""
    if isinstance(exponent, Number):
        times = abs(exponent.value)
        return base * min(times.numerator, int(_MOST)) if times.denominator == 1 else _INEXACT
    if all(isinstance(part, Number) or _whole(part) for part in walk(exponent)):
        return base * float(2.0 ** min(bits, math.log2(_MOST)))
    return _INEXACT


def _whole(node: Node) -> bool:
    return isinstance(node, Operation) and node.name in ("neg", "+", "*", "^", "!")


def _division(name: str, sizes: list[float]) -> float:
    """Common factors and remainders take the product of the lengths."""
    if name not in ("/", "gcd", "lcm", "mod") or len(sizes) < 2:
        return 0
    *_, smaller, larger = sorted(sizes)
    return smaller * larger / (4 * _SMALL) if smaller > _SMALL else 0
