"""What is said: a value, perhaps of something named, or a relation that names nothing."""

from collections.abc import Sequence
from dataclasses import dataclass

from rewards.verifiers.math.nodes import (
    Group,
    Many,
    Node,
    Operation,
    Relation,
    Symbol,
    is_value,
    walk,
)
from rewards.verifiers.math.sameness import approximates, rounds, same, varies
from rewards.verifiers.math.tokens import Unreadable

_CONSTANTS = frozenset({"pi", "e", "i", "infty", "imath"})


@dataclass(frozen=True)
class Statement:
    """`content`, said of `name` if that is given."""

    content: Node
    name: Node | None = None


def statements(node: Node) -> list[Statement]:
    """The things that `node` says, `\\pm` told apart and names carried on (`x = 1, 2`)."""
    items = node.items if isinstance(node, Many) else (node,)
    found: list[Statement] = []
    for item in items:
        said = statement(item)
        if found and _carries_on(found[-1], said):
            said = Statement(said.content, found[-1].name)
        found += [Statement(value, said.name) for value in told_apart(said.content)]
    return found


def _carries_on(before: Statement, said: Statement) -> bool:
    nameless = said.name is None and before.name is not None
    return nameless and is_value(said.content) and is_value(before.content)


def statement(node: Node) -> Statement:
    """A single thing; Unreadable for a chain of equals that are not equal."""
    if not isinstance(node, Relation):
        return Statement(node)
    if node.signs == ("in",) and is_name(node.sides[0]):
        return Statement(node.sides[1], node.sides[0])
    node = _without_approximation(node)
    if not isinstance(node, Relation):
        return Statement(node)
    if set(node.signs) != {"="}:
        return Statement(node)
    return _equation(node)


def _without_approximation(node: Relation) -> Node:
    """`1/3 ~ 0.333` says a third; `x ~ 0.333` says what it says."""
    if "~" not in node.signs:
        return node
    at = node.signs.index("~")
    kept = node.sides[: at + 1]
    if set(node.signs[:at]) - {"="} or set(node.signs[at:]) != {"~"}:
        raise Unreadable("an approximation inside a relation")
    exact, rough = kept[-1], node.sides[at + 1 :]
    if all(is_value(side) and not varies(side) for side in (exact, *rough)) and not all(
        approximates(side, exact) for side in rough
    ):
        raise Unreadable("an approximation that is none")
    if len(kept) > 1:
        return Relation(node.signs[:at], kept)
    if is_name(kept[0]) or kept[0] == Symbol("?"):
        return Relation(("=",), (kept[0], node.sides[-1]))
    return kept[0]


def _equation(node: Relation) -> Statement:
    first, *rest = node.sides
    if is_name(first) and not any(first in walk(side) for side in rest):
        return Statement(_chained(rest), first)
    if is_name(node.sides[-1]) and not any(map(varies, node.sides[:-1])):
        return Statement(_chained(node.sides[:-1]), node.sides[-1])
    if not any(map(varies, node.sides)) and all(is_value(side) for side in node.sides):
        return Statement(_chained(node.sides))
    return Statement(node)


def _chained(sides: Sequence[Node]) -> Node:
    """The value of sides that are equal, or rounded at last: then the one before."""
    said = sides[0]
    for side in sides[1:]:
        values = is_value(said) and is_value(side)
        if same(said, side) if values else said == side:
            said = side
        elif not (values and side == sides[-1] and rounds(side, said)):
            raise Unreadable("equals that are not equal")
    return said


def is_name(node: Node) -> bool:
    """Whether `node` names something, as `x`, `f(2)`, `|AB|`, `x_1`, `a/b` or `(x, y)` do."""
    match node:
        case Symbol(name):
            return name not in _CONSTANTS
        case Operation(name, arguments):
            if name.startswith(("call:", "index:")):
                return True
            if name == "*":
                return _is_label(arguments)
            return name in ("abs", "/", ":") and all(map(is_name, arguments))
        case Group("(", ")", items):
            return len(items) > 1 and all(map(is_name, items))
    return False


def _is_label(factors: Sequence[Node]) -> bool:
    """Capitals in a row (`AB`, `P(A)`, `W(n)`) name a thing; `xy` is a product."""
    names = [factor.name for factor in factors if isinstance(factor, Symbol)]
    if isinstance(factors[-1], Operation) and factors[-1].name == "call:angle":
        return len(names) == len(factors) - 1
    capital = bool(names) and names[0][:1].isupper()
    return len(names) == len(factors) and capital and not _CONSTANTS & set(names)


def told_apart(node: Node) -> list[Node]:
    """`node` with its first `\\pm` read as plus and as minus; itself if there is none.

    Unreadable if there are several: how they go together is not said.
    """
    if isinstance(node, Group) and node.opening not in "([":
        return [node]
    found = [part for part in walk(node) if isinstance(part, Operation) and part.name == "+-"]
    if not found:
        return [node]
    if len(set(found)) > 1 or len(found) > 1:
        raise Unreadable("several plus-minus signs")
    return [_replaced(node, found[0], sign) for sign in (1, -1)]


def _replaced(node: Node, signed: Operation, sign: int) -> Node:
    if node is signed or node == signed:
        *before, last = signed.arguments
        term = last if sign > 0 else Operation("neg", (last,))
        return Operation("+", (*before, term)) if before else term
    match node:
        case Operation(name, arguments):
            return Operation(name, tuple(_replaced(part, signed, sign) for part in arguments))
        case Group(opening, closing, items):
            return Group(opening, closing, tuple(_replaced(part, signed, sign) for part in items))
    return node
