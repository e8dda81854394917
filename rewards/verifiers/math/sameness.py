"""Whether two trees of values are equal, at every sample of their variables."""

from fractions import Fraction
from typing import Any

from rewards.verifiers.math.arithmetic import Undefined, wide
from rewards.verifiers.math.nodes import Node, Number, Operation, Symbol, walk
from rewards.verifiers.math.tokens import TooCostly, Unreadable
from rewards.verifiers.math.values import SAMPLES, WHOLE_SAMPLES, Evaluator

_DIGITS = (50, 130)
_CONCLUSIVE = 3
_PLACES = 6
_INFINITE = {Symbol("infty"): 1, Operation("neg", (Symbol("infty"),)): -1}


def same(one: Node, other: Node) -> bool:
    """Whether the values are equal. TooCostly, or Unreadable if a tree has no value."""
    if one == other:
        return True
    if one in _INFINITE or other in _INFINITE:
        return _INFINITE.get(one) == _INFINITE.get(other)
    if not varies(one) and not varies(other):
        return _agree(one, other, 0) is True or _approximates(one, other)
    verdicts = [_agree(one, other, sample) for sample in _samples(one, other)]
    return False not in verdicts and verdicts.count(True) >= _CONCLUSIVE


def _samples(*nodes: Node) -> tuple[int, ...]:
    """Series have a value only between integers."""
    parts = [part for node in nodes for part in walk(node)]
    series = any(isinstance(p, Operation) and p.name.startswith(("sum:", "prod:")) for p in parts)
    return WHOLE_SAMPLES if series else SAMPLES


def varies(node: Node) -> bool:
    """Whether the value depends on variables or unknown functions."""
    constants = ("pi", "e", "i", "imath")
    return any(
        (isinstance(part, Symbol) and part.name not in constants)
        or (isinstance(part, Operation) and part.name.startswith(("call:", "index:")))
        for part in walk(node)
    )


def _agree(one: Node, other: Node, sample: int) -> bool | None:
    """Whether the values agree at a sample; None where neither is real or defined, and apart."""
    before = None
    for digits in _DIGITS:
        evaluator = Evaluator(sample, digits)
        a, b = _value(evaluator, one), _value(evaluator, other)
        if a is None or b is None:
            return None if a is b and (varies(one) or varies(other)) else False
        if isinstance(a, Fraction) and isinstance(b, Fraction):
            return a == b
        apart = _apart(evaluator.context, a, b, digits, before)
        if apart is None:
            real = evaluator.context.im(_wide(a)) == 0 or evaluator.context.im(_wide(b)) == 0
            return False if real or not varies(one) else None
        before = apart
    return True


def _value(evaluator: Evaluator, node: Node) -> Any:
    try:
        return evaluator.value(node)
    except Undefined:
        return None


def _wide(value: Any) -> Any:
    return 0 if isinstance(value, Fraction) else value


def _apart(context: Any, a: Any, b: Any, digits: int, before: Any) -> Any | None:
    """The difference, or None if it is no mere rounding: that shrinks as digits are added."""
    a, b = (wide(context, value) for value in (a, b))
    apart, size = abs(a - b), max(abs(a), abs(b))
    rounding = context.mpf(10) ** (12 - digits)
    if apart <= size * rounding:
        return apart
    shrinks = before is None or before == 0 or apart <= before * context.mpf(10) ** -40
    return apart if apart <= rounding and shrinks else None


def _approximates(one: Node, other: Node) -> bool:
    """A decimal of six places or more stands for an irrational or endless number it rounds."""
    return any(_precise(a) and rounds(a, b) for a, b in ((one, other), (other, one)))


def _precise(written: Node) -> bool:
    """Whether a decimal has six places, and as many digits that count."""
    if not isinstance(written, Number) or written.places is None or written.places < _PLACES:
        return False
    return bool(abs(written.value) * 10**written.places >= 10 ** (_PLACES - 1))


def rounds(written: Node, exact: Node) -> bool:
    """Whether the decimal `written` is `exact`, which is none, rounded or cut off."""
    if not isinstance(written, Number) or written.places is None or varies(exact):
        return False
    if any(isinstance(part, Number) and part.places is not None for part in walk(exact)):
        return False
    evaluator = Evaluator(0, 40 + written.places)
    value = _value(evaluator, exact)
    if value is None:
        return False
    unit = Fraction(1, 10**written.places)
    if isinstance(value, Fraction):
        return (value / unit).denominator != 1 and _rounded(written.value, value, unit)
    context = evaluator.context
    return context.im(value) == 0 and _rounded(written.value, _fraction(context, value), unit)


def approximates(written: Node, exact: Node) -> bool:
    """Whether `written` may follow `exact` and `\\approx`: a number rounded to some digit of it,
    or else within a hundredth.
    """
    evaluator = Evaluator(0, 40)
    found = [_value(evaluator, node) for node in (written, exact)]
    if None in found or any(evaluator.context.im(_wide(value)) != 0 for value in found):
        return False
    given, value = (_fraction(evaluator.context, value) for value in found)
    if not isinstance(written, Number) or not (written.places or _whole(written)):
        return abs(given - value) * 100 <= abs(value)
    unit = Fraction(1, 10 ** (written.places or 0))
    while given and written.places is None and (given / unit / 10).denominator == 1:
        unit *= 10
    return _rounded(given, value, unit)


def _whole(written: Number) -> bool:
    return written.value.denominator == 1


def _rounded(written: Fraction, value: Fraction, unit: Fraction) -> bool:
    """Whether a multiple of `unit` is `value` rounded to the nearest, or cut off."""
    apart = abs(value - written)
    cut = apart < unit and abs(written) <= abs(value) and written * value >= 0
    return cut or apart * 2 <= unit


def _fraction(context: Any, value: Any) -> Fraction:
    """A real value as it is held."""
    if isinstance(value, Fraction):
        return value
    sign, mantissa, exponent, _ = context.re(value)._mpf_
    size = Fraction(int(mantissa)) * (Fraction(2) ** int(exponent))
    return -size if sign else size


def canonical(node: Node) -> Node:
    """`node` with the arguments of sums, products and unions in one order, nested ones joined."""
    if not isinstance(node, Operation):
        return node
    arguments = [canonical(argument) for argument in node.arguments]
    if node.name in ("+", "*", "cup", "cap"):
        flat: list[Node] = []
        for argument in arguments:
            nested = isinstance(argument, Operation) and argument.name == node.name
            flat += argument.arguments if nested else [argument]  # type: ignore[union-attr]
        arguments = sorted(flat, key=repr)
    return Operation(node.name, tuple(arguments))


def same_or_alike(one: Node, other: Node) -> bool:
    """As `same`; what is too costly to evaluate is equal only if it is written alike."""
    try:
        return same(one, other)
    except TooCostly:
        if canonical(one) == canonical(other):
            return True
        raise


def fingerprint(node: Node) -> str | None:
    """A text that equal values share, and different ones do not, up to thirty digits; or None."""
    try:
        found = []
        for sample in (0, 3) if varies(node) else (0,):
            evaluator = Evaluator(sample, _DIGITS[0])
            value = evaluator.value(node)
            exact = isinstance(value, Fraction)
            found.append(
                f"{value.numerator:x}/{value.denominator:x}"
                if exact
                else evaluator.context.nstr(evaluator.context.mpc(value), 30)
            )
    except (Undefined, Unreadable, TooCostly):
        return None
    return "|".join(found)


def proportional(one: Node, other: Node, *, positive: bool) -> bool:
    """Whether `one` is a constant times `other` at every sample, a positive constant if asked."""
    ratios = []
    for sample in _samples(one, other):
        evaluator = Evaluator(sample, _DIGITS[0])
        a, b = _value(evaluator, one), _value(evaluator, other)
        if a is None or b is None:
            continue
        a, b = wide(evaluator.context, a), wide(evaluator.context, b)
        small = evaluator.context.mpf(10) ** -30
        if abs(a) < small or abs(b) < small:
            if abs(a) < small and abs(b) < small:
                continue
            return False
        ratios.append((evaluator.context, a / b))
    if len(ratios) < _CONCLUSIVE:
        return False
    context, first = ratios[0]
    if positive and (context.im(first) != 0 or context.re(first) < 0):
        return False
    return all(abs(r - first) <= abs(first) * context.mpf(10) ** -30 for _, r in ratios[1:])
