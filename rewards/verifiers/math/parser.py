"""Reads spelled text into a tree, by precedence climbing; Unreadable where it says nothing clear.

From loose to tight: and/or, `;`, `,`, relations, ratios, set operations, sums, products, signs,
powers, what follows a value (`!`, `%`, subscripts), atoms. Two numbers side by side are no product.
"""

from collections.abc import Sequence

from rewards.verifiers.math.atoms import CLOSING, Atoms
from rewards.verifiers.math.nodes import (
    Many,
    Node,
    Operation,
    Relation,
    Symbol,
    negated,
    number,
    product_of,
    sum_of,
)
from rewards.verifiers.math.tokens import Unreadable, tokens, without_doubled_brackets

_STARTS = frozenset({"(", "[", "{", "\\{", "|", "lfloor", "lceil"})
_RELATIONS = frozenset({"=", "<", ">", "<=", ">=", "!=", "~", "in", ":=", "equiv"})


def read(text: str) -> Node:
    """The tree of spelled `text`; Unreadable or TooCostly otherwise."""
    parser = _Parser(without_doubled_brackets(tokens(text)))
    node = parser.answer()
    parser.expect_end()
    return node


class _Parser(Atoms):
    # Several things, relations.

    def answer(self) -> Node:
        """Everything up to a closing bracket or the end."""
        groups, joints = [[self.clause()]], set()
        while (joint := self._joint()) is not None:
            if self.next.kind == "end" or self.sees(*CLOSING.values()):
                break
            joints.add(joint)
            if joint == ";" and len(self.tokens) > 1:
                groups.append([])
            groups[-1].append(self.clause())
        if len(groups) > 1 and any(len(group) > 1 for group in groups):
            return Many(tuple(_many(group, ",") for group in groups), ";")
        items = [item for group in groups for item in group]
        return _many(items, next((j for j in ("or", "and") if j in joints), ","))

    def _joint(self) -> str | None:
        """The joint here, if any; a comma may stand before `and`."""
        found = None
        while True:
            token = self.next
            if token.kind == "sign" and token.text in (",", ";", "and", "or"):
                found = token.text if found in (None, ",") else found
            elif token.kind == "text" and token.text.lower() in ("and", "or"):
                found = token.text.lower()
            else:
                return found
            self.take()

    def clause(self) -> Node:
        """A value or a relation."""
        signs, sides = [], []
        if not self.sees("<", ">", "<=", ">=", "!=", "~"):
            sides.append(self.ratio())
        else:
            sides.append(Symbol("?"))
        while self.sees(*_RELATIONS):
            sign = self.take().text
            signs.append("=" if sign == ":=" else sign)
            sides.append(self.ratio())
        return Relation(tuple(signs), tuple(sides)) if signs else sides[0]

    def ratio(self) -> Node:
        """A value or a ratio."""
        sides = [self._sets()]
        while self.skips(":"):
            sides.append(self._sets())
        return Operation(":", tuple(sides)) if len(sides) > 1 else sides[0]

    def _sets(self) -> Node:
        left = self.sum()
        while self.sees("cup", "cap", "setminus"):
            sign = self.take().text
            left = Operation(sign, (left, self.sum()))
        return left

    # Values.

    def sum(self) -> Node:
        """Terms."""
        terms = [self.product()]
        while self.sees("+", "-", "+-"):
            sign = self.take().text
            term = self.product()
            if sign == "+-":
                terms = [Operation("+-", (sum_of(terms), term))]
            else:
                terms.append(term if sign == "+" else negated(term))
        return sum_of(terms)

    def product(self) -> Node:
        """Factors."""
        factors = [self.signed()]
        while True:
            if self.skips("*"):
                factors.append(self.signed())
            elif self.skips("/"):
                factors = [Operation("/", (product_of(factors), self.signed()))]
            elif self.skips("mod"):
                factors = [Operation("mod", (product_of(factors), self.signed()))]
            elif self.begins_factor():
                if self.next.kind == "number" and self._after_number():
                    raise Unreadable("two numbers side by side")
                factors.append(self.power())
            else:
                return product_of(factors)

    def _after_number(self) -> bool:
        return self.tokens[self.at - 1].kind == "number"

    def begins_factor(self) -> bool:
        """Whether what stands here would be multiplied with what was before."""
        token = self.next
        if token.kind in ("number", "name"):
            return token.text not in ("over", "choose")
        if token.kind == "text":
            return token.text.lower() not in ("and", "or")
        if token.text.startswith("\\begin"):
            return True
        return token.text in _STARTS and not (token.text == "|" and self.bars)

    def signed(self) -> Node:
        """A power with its signs."""
        if self.skips("-"):
            return negated(self.signed())
        if self.skips("+"):
            return self.signed()
        if self.skips("+-"):
            return Operation("+-", (self.signed(),))
        return self.power()

    def power(self) -> Node:
        """An atom with its exponent."""
        base = self._followed(self.atom())
        if not self.sees("^"):
            return base
        self.take()
        exponent = Symbol("circ") if self.skips("circ") else self.exponent()
        if exponent == Symbol("circ"):
            return self._followed(self._degrees(base))
        return self._followed(Operation("^", (base, exponent)))

    def _degrees(self, value: Node) -> Node:
        """Degrees count as radians of a function's argument; elsewhere they are but a unit."""
        if not self.functions:
            return value
        return Operation("*", (value, Operation("/", (Symbol("pi"), number(180)))))

    def exponent(self) -> Node:
        """What stands raised, as TeX takes it."""
        if self.skips("-"):
            return negated(self.power())
        if self.skips("+"):
            return self.power()
        if self.sees("'", "*"):
            return Symbol(self.take().text)
        if self.sees("{") and self.ahead(1).text == "circ":
            self.take(), self.take()
            self.expect("}")
            return Symbol("circ")
        if self.next.kind == "number" or self.ahead(1).text == "^":
            return self.power()
        return self.argument()

    def _followed(self, node: Node) -> Node:
        """`node` with what follows it tightly: `!`, `%`, `'`, degrees."""
        while True:
            if self.skips("!"):
                double = self.skips("!")
                node = Operation("!!" if double else "!", (node,))
            elif self.skips("%", "\\%"):
                node = Operation("%", (node,))
            elif self.skips("'"):
                node = Operation("call:prime", (node,))
            elif not self.skips("circ"):
                return node


def _many(items: Sequence[Node], joint: str) -> Node:
    return items[0] if len(items) == 1 else Many(tuple(items), joint)
