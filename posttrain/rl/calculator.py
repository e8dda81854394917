"""Arithmetic on exact fractions, as text in and text out; never raises but ValueError.

Always holds: the same expression gives the same text everywhere, and no expression takes long: its
length, the digits of each number and of each result on the way are bounded.
"""

import ast
import operator
from collections.abc import Callable, Mapping
from decimal import Context, Decimal, InvalidOperation, localcontext
from fractions import Fraction

LONGEST = 500
"""Characters of an expression."""

_BITS = 4096
"""Of the numerator and of the denominator of any result."""

_EXPONENT = 400
"""Largest decimal exponent of a number as written."""

_DIGITS = 15
"""Significant digits of a result that no decimal fraction of so many digits gives exactly."""

_SIGNS = str.maketrans({"×": "*", "÷": "/", "−": "-", "·": "*"})

Number = Fraction


def calculate(expression: str) -> str:
    """The value of `expression`; ValueError says in a few words why it has none.

    It may have numbers, brackets and + - * / // % **, and `^` for the last.
    """
    if len(expression) > LONGEST:
        raise ValueError(f"longer than {LONGEST} characters")
    text = expression.strip().translate(_SIGNS).replace("^", "**")
    try:
        tree = ast.parse(text, mode="eval")
        return _written(_value(tree.body, text))
    except ZeroDivisionError:
        raise ValueError("division by zero") from None
    except (SyntaxError, RecursionError, MemoryError):
        raise ValueError("not an arithmetic expression") from None


def _value(node: ast.expr, text: str) -> Number:
    if isinstance(node, ast.Constant):
        return _number(ast.get_source_segment(text, node) or "", node.value)
    if isinstance(node, ast.UnaryOp) and type(node.op) in _SIGNED:
        return _SIGNED[type(node.op)](_value(node.operand, text))
    if isinstance(node, ast.BinOp):
        left, right = _value(node.left, text), _value(node.right, text)
        if isinstance(node.op, ast.Pow):
            return _power(left, right)
        if type(node.op) in _OPERATIONS:
            return _bounded(_OPERATIONS[type(node.op)](left, right))
    raise ValueError("only numbers, brackets and + - * / // % ** are known")


def _number(written: str, value: object) -> Number:
    if type(value) not in (int, float):
        raise ValueError("only numbers, brackets and + - * / // % ** are known")
    if type(value) is int:
        return _bounded(Fraction(value))
    try:
        exact = Decimal(written)
    except InvalidOperation:
        raise ValueError(f"{written[:40]} is no number") from None
    if exact and abs(exact.adjusted()) > _EXPONENT:
        raise ValueError("a number is too large or too small")
    return Fraction(exact)


def _power(base: Number, exponent: Number) -> Number:
    if exponent.denominator != 1:
        raise ValueError("an exponent must be a whole number")
    size = max(base.numerator.bit_length(), base.denominator.bit_length())
    if base not in (-1, 0, 1) and abs(exponent) * (size - 1) > _BITS:
        raise ValueError("the result is too large")
    if abs(base) == 1:
        exponent = exponent % 2
    elif base == 0:
        exponent = max(min(exponent, Fraction(1)), Fraction(-1))
    return _bounded(Fraction(base ** int(exponent)))


def _bounded(value: Fraction | int) -> Number:
    found = Fraction(value)
    if max(found.numerator.bit_length(), found.denominator.bit_length()) > _BITS:
        raise ValueError("the result is too large")
    return found


def _written(value: Number) -> str:
    if value.denominator == 1:
        return str(value.numerator)
    with localcontext(Context(prec=_DIGITS)):
        decimal = Decimal(value.numerator) / Decimal(value.denominator)
    return format(decimal.normalize(), "f" if -_DIGITS < decimal.adjusted() < _DIGITS else "e")


_SIGNED: Mapping[type[ast.unaryop], Callable[[Number], Number]] = {
    ast.UAdd: operator.pos, ast.USub: operator.neg,
}  # fmt: skip
_OPERATIONS: Mapping[type[ast.operator], Callable[[Number, Number], Number | int]] = {
    ast.Add: operator.add, ast.Sub: operator.sub, ast.Mult: operator.mul,
    ast.Div: operator.truediv, ast.FloorDiv: operator.floordiv, ast.Mod: operator.mod,
}  # fmt: skip
