"""Reads assert statements: a plain call against a literal needs no judge beside the program.

assert f(1, [2]) == 3        is a call of `f`, whose value is compared here
assert abs(f(1) - 2) < 1e-6  is run as it stands, in a box of its own
"""

import ast
import builtins
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from sandbox.judging.inside.codec import Refused, encode
from sandbox.judging.inside.names import STANDARD


class BadTest(ValueError):
    """The tests themselves are no Python; says where."""


@dataclass(frozen=True)
class PlainCall:
    """`function(*args)` must equal `expected` as `==` of Python says; values are trees."""

    function: str
    args: Sequence[Any]
    expected: Any


def parsed(source: str, where: str) -> ast.Module:
    """The syntax tree; BadTest if there is none."""
    try:
        return ast.parse(source)
    except (SyntaxError, ValueError, RecursionError, MemoryError) as fault:
        raise BadTest(f"{where} is no Python: {fault}") from None


def plain_call(test: ast.Module) -> PlainCall | None:
    """The one plain call which all of a test amounts to, if it does."""
    if len(test.body) != 1 or not isinstance(statement := test.body[0], ast.Assert):
        return None
    compared = statement.test
    if not isinstance(compared, ast.Compare) or len(compared.ops) != 1:
        return None
    if not isinstance(compared.ops[0], ast.Eq):
        return None
    sides = [compared.left, compared.comparators[0]]
    if not isinstance(sides[0], ast.Call):
        sides.reverse()
    return _call(sides[0], sides[1])


def _call(call: ast.expr, expected: ast.expr) -> PlainCall | None:
    if not isinstance(call, ast.Call) or call.keywords or not isinstance(call.func, ast.Name):
        return None
    try:
        args = [encode(ast.literal_eval(argument)) for argument in call.args]
        return PlainCall(call.func.id, args, encode(ast.literal_eval(expected)))
    except (ValueError, TypeError, Refused, RecursionError, MemoryError):
        return None  # Not literals.


def entry_point(tests: Sequence[ast.Module]) -> str | None:
    """The one function that every test calls, if it can be told from the library's."""
    called = [_called(test) for test in tests]
    common = set.intersection(*called) - set(dir(builtins))
    if len(common) > 1:
        common -= STANDARD
    return common.pop() if len(common) == 1 else None


def _called(test: ast.Module) -> set[str]:
    calls = (node.func for node in ast.walk(test) if isinstance(node, ast.Call))
    return {function.id for function in calls if isinstance(function, ast.Name)}
