"""Parts of the real line, as intervals and inequalities describe them.

Ends are numbers of mpmath at one sample of the variables, so intervals between symbols compare too.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from rewards.verifiers.math.arithmetic import Undefined, wide
from rewards.verifiers.math.nodes import Group, Many, Node, Operation, Relation, Symbol, walk
from rewards.verifiers.math.tokens import Unreadable
from rewards.verifiers.math.values import Evaluator

DIGITS = 50
_MIRRORED = {"<": ">", ">": "<", "<=": ">=", ">=": "<=", "!=": "!="}


@dataclass(frozen=True)
class Piece:
    """From `low` to `high`; each end belongs to it unless it is open. A point is closed."""

    low: Any
    low_open: bool
    high: Any
    high_open: bool

    @property
    def empty(self) -> bool:
        """Whether nothing lies between the ends."""
        return bool(self.low > self.high) or (
            bool(self.low == self.high) and (self.low_open or self.high_open)
        )


class Line:
    """Reads regions at one sample. Unreadable for what describes none."""

    def __init__(self, sample: int) -> None:
        self.evaluator = Evaluator(sample, DIGITS)
        self.context = self.evaluator.context

    def region(self, node: Node) -> list[Piece]:
        """The pieces of `node`, in order and apart."""
        match node:
            case Symbol("reals"):
                return self._everything()
            case Operation("cup", (left, right)):
                return self._united(self.region(left) + self.region(right))
            case Operation("cap", (left, right)):
                return self._common(self.region(left), self.region(right))
            case Operation("setminus", (left, right)):
                return self._common(self.region(left), self._outside(self.region(right)))
            case Group("\\{", _, items) | Group("{", _, items):
                return self._united([self._point(item) for item in items])
            case Group(opening, closing, (low, high)):
                ends = self._end(low), opening == "(", self._end(high), closing == ")"
                return self._united([Piece(*ends)])
            case Relation(("in",), (name, region)) if _is_name(name):
                return self.region(region)
            case Relation():
                return self._where(node)
            case Many(items, "or"):
                return self._united([piece for item in items for piece in self.region(item)])
            case Many(items, "and"):
                pieces = self._everything()
                for item in items:
                    pieces = self._common(pieces, self.region(item))
                return pieces
        raise Unreadable("no region")

    def _everything(self) -> list[Piece]:
        return [Piece(self.context.ninf, True, self.context.inf, True)]

    def _end(self, node: Node) -> Any:
        if node == Symbol("infty"):
            return self.context.inf
        if node == Operation("neg", (Symbol("infty"),)):
            return self.context.ninf
        value = wide(self.context, self.evaluator.value(node))
        if self.context.im(value) != 0:
            raise Unreadable("an end that is not real")
        return self.context.re(value)

    def _point(self, node: Node) -> Piece:
        value = self._end(node)
        return Piece(value, False, value, False)

    def _united(self, pieces: Sequence[Piece]) -> list[Piece]:
        found: list[Piece] = []
        order = sorted((p for p in pieces if not p.empty), key=lambda p: (p.low, p.low_open))
        for piece in order:
            if found and self._touch(found[-1], piece):
                last = found.pop()
                low = last.low, last.low_open
                ends = [(last.high, not last.high_open), (piece.high, not piece.high_open)]
                high, closed = max(ends)
                found.append(Piece(*low, high, not closed))
            else:
                found.append(piece)
        return found

    def _touch(self, left: Piece, right: Piece) -> bool:
        if left.high == right.low:
            return not (left.high_open and right.low_open)
        return bool(right.low < left.high)

    def _outside(self, pieces: Sequence[Piece]) -> list[Piece]:
        found, low, low_open = [], self.context.ninf, True
        for piece in pieces:
            found.append(Piece(low, low_open, piece.low, not piece.low_open))
            low, low_open = piece.high, not piece.high_open
        found.append(Piece(low, low_open, self.context.inf, True))
        return [piece for piece in found if not piece.empty]

    def _common(self, one: Sequence[Piece], other: Sequence[Piece]) -> list[Piece]:
        united = self._united([*self._outside(one), *self._outside(other)])
        return self._outside(united)

    # Inequalities.

    def _where(self, relation: Relation) -> list[Piece]:
        if len(relation.sides) > 3:
            raise Unreadable("a long chain")
        pieces = self._everything()
        pairs = zip(relation.sides, relation.signs, relation.sides[1:], strict=False)
        variable = self.variable(relation)
        for left, sign, right in pairs:
            pieces = self._common(pieces, self._half(variable, left, sign, right))
        return pieces

    def variable(self, relation: Relation) -> Node:
        """What the inequality is about: the one side that is a name, or the one variable."""
        names = [side for side in relation.sides if _is_name(side)]
        if len(names) == 1:
            return names[0]
        symbols = {part for part in walk(Group("", "", relation.sides)) if _is_variable(part)}
        if len(symbols) != 1:
            raise Unreadable("not one variable")
        return symbols.pop()

    def _half(self, variable: Node, left: Node, sign: str, right: Node) -> list[Piece]:
        if sign not in _MIRRORED:
            raise Unreadable("no inequality")
        if left == variable:
            return self._beside(sign, self._end(right))
        if right == variable:
            return self._beside(_MIRRORED[sign], self._end(left))
        match left, sign:
            case Operation("abs", (inner,)), "<" | "<=":
                minus = Operation("neg", (right,))
                return self._common(
                    self._linear(variable, inner, sign, right),
                    self._linear(variable, minus, sign, inner),
                )
            case Operation("abs", (inner,)), ">" | ">=":
                minus = Operation("neg", (right,))
                return self._united(
                    self._linear(variable, inner, sign, right)
                    + self._linear(variable, minus, sign, inner)
                )
        if isinstance(right, Operation) and right.name == "abs":
            return self._half(variable, right, _MIRRORED[sign], left)
        return self._linear(variable, left, sign, right)

    def _beside(self, sign: str, end: Any) -> list[Piece]:
        if sign == "!=":
            return self._outside([Piece(end, False, end, False)])
        if sign in ("<", "<="):
            return [Piece(self.context.ninf, True, end, sign == "<")]
        return [Piece(end, sign == ">", self.context.inf, True)]

    def _linear(self, variable: Node, left: Node, sign: str, right: Node) -> list[Piece]:
        if not isinstance(variable, Symbol):
            raise Unreadable("not linear")
        zero, one, two = (self._difference(variable.name, at, left, right) for at in (0, 1, 2))
        slope = one - zero
        if abs(two - one - slope) > abs(slope) * self.context.mpf(10) ** -30 or slope == 0:
            raise Unreadable("not linear")
        return self._beside(sign if slope > 0 else _MIRRORED[sign], -zero / slope)

    def _difference(self, name: str, at: int, left: Node, right: Node) -> Any:
        with self.evaluator.binding(name, at):
            return self._end(left) - self._end(right)


def _is_variable(node: Node) -> bool:
    return isinstance(node, Symbol) and node.name not in ("pi", "e", "i", "infty", "imath")


def _is_name(node: Node) -> bool:
    unknown = isinstance(node, Operation) and node.name.startswith(("call:", "index:"))
    return unknown or _is_variable(node)


def same_region(one: Node, other: Node) -> bool | None:
    """Whether both describe the same part of the line; None if one describes none."""
    try:
        return all(_agree(Line(sample), one, other) for sample in (0, 2))
    except (Unreadable, Undefined):
        return None


def _agree(line: Line, one: Node, other: Node) -> bool:
    left, right = line.region(one), line.region(other)
    if len(left) != len(right):
        return False
    return all(
        a.low_open == b.low_open
        and a.high_open == b.high_open
        and _near(line.context, a.low, b.low)
        and _near(line.context, a.high, b.high)
        for a, b in zip(left, right, strict=True)
    )


def _near(context: Any, one: Any, other: Any) -> bool:
    if context.isinf(one) or context.isinf(other):
        return bool(one == other)
    return bool(abs(one - other) <= max(abs(one), abs(other)) * context.mpf(10) ** -38)
