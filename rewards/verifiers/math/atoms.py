"""The smallest parts of an answer: numbers, texts, and what stands in brackets."""

from abc import abstractmethod
from decimal import Decimal
from fractions import Fraction

from rewards.verifiers.math.names import Names
from rewards.verifiers.math.nodes import (
    Group,
    Many,
    Matrix,
    Node,
    Number,
    Numeral,
    Operation,
    Symbol,
)
from rewards.verifiers.math.tokens import TooCostly, Unreadable

DEEPEST = 50
"""Most brackets inside one another."""

CLOSING = {"(": ")", "[": "]", "{": "}", "\\{": "\\}"}
FRACTIONS = frozenset({"frac", "dfrac", "tfrac", "cfrac"})
_MATRICES = frozenset(["pmatrix", "bmatrix", "Bmatrix", "matrix", "array", "smallmatrix"])


class Atoms(Names):
    """Reads atoms; what stands inside brackets is read by the methods that are abstract here."""

    @abstractmethod
    def answer(self) -> Node:
        """Everything up to a closing bracket or the end."""

    @abstractmethod
    def clause(self) -> Node:
        """A value or a relation."""

    @abstractmethod
    def ratio(self) -> Node:
        """A value or a ratio."""

    def atom(self) -> Node:
        """A number, a name, a text or a bracket."""
        token = self.take()
        node: Node
        if token.kind == "number":
            node = self._number(token.text)
        elif token.kind == "name":
            node = self.name(token.text)
        elif token.kind == "text":
            node = self.text(token.text)
        else:
            node = self.bracketed(token.text)
        return node

    def _number(self, text: str) -> Node:
        places = len(text.partition(".")[2]) if "." in text else None
        value = Number(Fraction(Decimal(text)), places)
        if self.sees("_") and places is None:
            self.take()
            return Numeral(text.lstrip("0") or "0", self._base())
        if places is None and self.next.text in FRACTIONS and self.next.kind == "name":
            return self._mixed(value)
        return value

    def _mixed(self, whole: Number) -> Node:
        """`2\\frac{1}{3}` is a sum if the fraction is one of plain integers."""
        before = self.at
        self.take()
        fraction = self._fraction("frac")
        match fraction:
            case Operation("/", (Number(p, None), Number(q, None))) if q and 0 < p < q:
                return Operation("+", (whole, fraction))
        self.at = before
        return whole

    def _base(self) -> str:
        token = self.take()
        if token.text == "{":
            token = self.take()
            self.expect("}")
        if token.kind not in ("number", "text"):
            raise Unreadable("a base is no number")
        return token.text

    def text(self, text: str) -> Node:
        """A text that stands for a value, as a unit that was not taken off does."""
        if len(text) > 40:
            raise Unreadable("a text where a value was expected")
        return Symbol(f"text:{text.casefold()}") if len(text) > 1 else self.subscripted(text)

    def bracketed(self, opening: str) -> Node:
        """What the bracket just taken opens, to its end; TooCostly if too deep."""
        self.depth += 1
        if self.depth > DEEPEST:
            raise TooCostly("brackets are nested too deeply")
        node = self._content(opening)
        self.depth -= 1
        return node

    def _content(self, opening: str) -> Node:
        if opening == "|":
            return self._bars_content()
        if opening in ("lfloor", "lceil"):
            inner = self.ratio()
            self.expect("r" + opening[1:])
            return Operation("floor" if opening == "lfloor" else "ceil", (inner,))
        if opening == "{":
            return self._braced()
        if opening.startswith("\\begin{"):
            return self._matrix(opening)
        if opening in CLOSING:
            return self._group(opening)
        if opening == "...":
            return Symbol("...")
        raise Unreadable(f"{opening} is out of place" if opening else "the answer ends too early")

    def _bars_content(self) -> Node:
        self.bars += 1
        inner = self.sum()
        self.bars -= 1
        self.expect("|")
        return Operation("abs", (inner,))

    def _braced(self) -> Node:
        """Braces only group, as in `{9 \\over 7}`."""
        bars, self.bars = self.bars, 0
        inner = self.answer()
        self.bars = bars
        if self.next.kind == "name" and self.next.text in ("over", "choose"):
            name = "/" if self.take().text == "over" else "binom"
            inner = Operation(name, (inner, self.sum()))
        self.expect("}")
        return inner

    def _group(self, opening: str) -> Node:
        bars, self.bars = self.bars, 0
        if self.skips(CLOSING[opening]):
            items: tuple[Node, ...] = ()
            closing = CLOSING[opening]
        else:
            inner = self.answer()
            items = _flat(inner)
            closing = self.take().text
        self.bars = bars
        if (opening in "([") != (closing in (")", "]")) or closing not in CLOSING.values():
            raise Unreadable(f"{opening} is not closed")
        if len(items) == 1 and opening in "([" and (opening, closing) in (("(", ")"), ("[", "]")):
            return items[0]
        return Group(opening, closing, items)

    def _matrix(self, begin: str) -> Node:
        kind = begin[7:-1]
        if kind == "array" and self.skips("{"):
            while not self.skips("}"):
                self.take()
        if kind not in _MATRICES:
            raise Unreadable(f"{kind} is no matrix")
        rows: list[list[Node]] = [[]]
        while not self.skips(f"\\end{{{kind}}}"):
            rows[-1].append(self.clause())
            if self.skips("\\\\"):
                rows.append([])
            elif not self.skips("&") and not self.sees(f"\\end{{{kind}}}"):
                raise Unreadable("the matrix does not end")
        rows = [row for row in rows if row]
        if not rows or len({len(row) for row in rows}) != 1:
            raise Unreadable("rows of different lengths")
        return Matrix(tuple(map(tuple, rows)))


def _flat(node: Node) -> tuple[Node, ...]:
    return node.items if isinstance(node, Many) and node.joint in (",", ";") else (node,)
