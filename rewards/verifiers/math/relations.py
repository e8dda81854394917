"""Whether two equations or inequalities hold for the same values of the same variables."""

from itertools import pairwise

from rewards.verifiers.math.nodes import Node, Operation, Relation, Symbol, is_value, negated
from rewards.verifiers.math.regions import Line, same_region
from rewards.verifiers.math.sameness import proportional
from rewards.verifiers.math.tokens import Unreadable

_ASCENDING = {"<": "<", "<=": "<=", ">": "<", ">=": "<=", "=": "=", "!=": "!="}


def same_relation(one: Relation, other: Relation) -> bool:
    """Whether one is the other scaled or turned round, or both describe one part of the line."""
    wanted, given = _pairs(one), _pairs(other)
    if len(wanted) == len(given) and all(any(_scaled(a, b) for b in given) for a in wanted):
        return True
    variables = {variable(one), variable(other)}
    return None not in variables and len(variables) == 1 and same_region(one, other) is True


def variable(relation: Relation) -> Node | None:
    """What an inequality is about, if that is one thing."""
    try:
        return Line(0).variable(relation)
    except Unreadable:
        return None


def difference(left: Node, right: Node) -> Node:
    """`left - right`."""
    return Operation("+", (left, negated(right)))


def _pairs(relation: Relation) -> list[tuple[str, Node]]:
    """A chain as neighbours: `0 < node`, `0 <= node`, `0 = node` or `0 != node`."""
    found = []
    for (left, right), sign in zip(pairwise(relation.sides), relation.signs, strict=True):
        if sign not in _ASCENDING or not is_value(left) or not is_value(right):
            raise Unreadable("a relation that cannot be compared")
        if Symbol("?") in (left, right):
            raise Unreadable("a relation to nothing")
        turned = sign in (">", ">=")
        node = difference(left, right) if turned else difference(right, left)
        found.append((_ASCENDING[sign], node))
    return found


def _scaled(one: tuple[str, Node], other: tuple[str, Node]) -> bool:
    same = one[0] == other[0]
    return same and proportional(one[1], other[1], positive=one[0] in ("<", "<="))
