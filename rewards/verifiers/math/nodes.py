"""What an answer says, as a tree: values, and what is said of them (lists, tuples, relations)."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from fractions import Fraction


@dataclass(frozen=True)
class Number:
    """A number as written; `places` counts the digits after a decimal point, if there was one."""

    value: Fraction
    places: int | None = None


@dataclass(frozen=True)
class Symbol:
    """A variable, a constant such as pi, or a set such as the reals."""

    name: str


@dataclass(frozen=True)
class Operation:
    """`+ * / ^ neg +- %` or a function, applied; `call:f` and `index:a` are functions unknown."""

    name: str
    arguments: tuple["Node", ...]


@dataclass(frozen=True)
class Numeral:
    """Digits in a base."""

    digits: str
    base: str


@dataclass(frozen=True)
class Matrix:
    """Rows of equal length."""

    rows: tuple[tuple["Node", ...], ...]


@dataclass(frozen=True)
class Group:
    """What stands in brackets and is no mere parenthesis: a tuple, an interval, a set."""

    opening: str
    closing: str
    items: tuple["Node", ...]


@dataclass(frozen=True)
class Many:
    """Several things said one after the other; `joint` is `,`, `;`, `and` or `or`."""

    items: tuple["Node", ...]
    joint: str


@dataclass(frozen=True)
class Relation:
    """A chain: `sides[0] signs[0] sides[1] ...`."""

    signs: tuple[str, ...]
    sides: tuple["Node", ...]


Node = Number | Symbol | Operation | Numeral | Matrix | Group | Many | Relation
REGIONS = frozenset(
    {"cup", "cap", "setminus", "reals", "integers", "naturals", "rationals", "complexes"}
)
"""Names of symbols and operations that stand for sets."""


def is_value(node: Node) -> bool:
    """Whether `node` may have a number as value."""
    if isinstance(node, Symbol | Operation):
        return node.name not in REGIONS and node.name != ":"
    return isinstance(node, Number)


def children(node: Node) -> tuple[Node, ...]:
    """The nodes right below."""
    match node:
        case Operation(_, arguments):
            return arguments
        case Group(_, _, items) | Many(items, _):
            return items
        case Relation(_, sides):
            return sides
        case Matrix(rows):
            return tuple(cell for row in rows for cell in row)
    return ()


def renamed(node: Node, old: Symbol, new: Symbol) -> Node:
    """The value `node` with the variable `old` called `new`."""
    if isinstance(node, Operation):
        return Operation(node.name, tuple(renamed(part, old, new) for part in node.arguments))
    return new if node == old else node


def negated(node: Node) -> Node:
    """The negative; of a number, the negative number."""
    if isinstance(node, Number):
        return Number(-node.value, node.places)
    return Operation("neg", (node,))


def sum_of(terms: Sequence[Node]) -> Node:
    """The sum of one term or more."""
    return terms[0] if len(terms) == 1 else Operation("+", tuple(terms))


def product_of(factors: Sequence[Node]) -> Node:
    """The product of one factor or more."""
    return factors[0] if len(factors) == 1 else Operation("*", tuple(factors))


def walk(node: Node) -> Iterator[Node]:
    """`node` and all below it."""
    rest = [node]
    while rest:
        node = rest.pop()
        yield node
        rest += children(node)


def number(value: int | Fraction) -> Number:
    """The number `value`."""
    return Number(Fraction(value))
