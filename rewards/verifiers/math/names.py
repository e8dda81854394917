"""Names in an answer: functions, constants, variables, and what TeX commands stand for."""

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any

from rewards.verifiers.math.cursor import Cursor
from rewards.verifiers.math.nodes import (
    Group,
    Node,
    Number,
    Operation,
    Relation,
    Symbol,
    negated,
    number,
    product_of,
)
from rewards.verifiers.math.tokens import Token, Unreadable
from rewards.verifiers.math.words import FUNCTIONS, INVERSE

_UNKNOWN_FUNCTIONS = frozenset("fg")
_SETS = {"R": "reals", "Z": "integers", "N": "naturals", "Q": "rationals", "C": "complexes"}
_ALIASES = {"lg": "log", "varepsilon": "epsilon", "varphi": "phi"}
_GREEK = frozenset(
    [
        "alpha",
        "beta",
        "gamma",
        "delta",
        "epsilon",
        "varepsilon",
        "zeta",
        "eta",
        "theta",
        "vartheta",
        "iota",
        "kappa",
        "lambda",
        "mu",
        "nu",
        "xi",
        "pi",
        "rho",
        "sigma",
        "tau",
        "upsilon",
        "phi",
        "varphi",
        "chi",
        "psi",
        "omega",
        "Gamma",
        "Delta",
        "Theta",
        "Lambda",
        "Xi",
        "Pi",
        "Sigma",
        "Upsilon",
        "Phi",
        "Psi",
        "Omega",
        "infty",
        "ell",
        "hbar",
        "imath",
        "circ",
    ]
)


class Names(Cursor, ABC):
    """Reads what a name begins; what stands further inside is read by the abstract methods."""

    @abstractmethod
    def sum(self) -> Node:
        """Terms."""

    @abstractmethod
    def product(self) -> Node:
        """Factors."""

    @abstractmethod
    def signed(self) -> Node:
        """A power with its signs."""

    @abstractmethod
    def power(self) -> Node:
        """An atom with its exponent."""

    @abstractmethod
    def exponent(self) -> Node:
        """What stands raised, as TeX takes it."""

    @abstractmethod
    def atom(self) -> Node:
        """A number, a name, a text or a bracket."""

    @abstractmethod
    def begins_factor(self) -> bool:
        """Whether what stands here would be multiplied with what was before."""

    def name(self, name: str) -> Node:
        """What the name just taken begins."""
        if (reader := _READERS.get(name)) is not None:
            return reader(self, name)
        if name in FUNCTIONS:
            return self._function(name)
        if name in _UNKNOWN_FUNCTIONS:
            return self._unknown_function(name)
        if name == "angle" and self.begins_factor():
            return Operation("call:angle", (_vertices(self.product()),))
        if len(name) > 1 and name not in _GREEK:
            raise Unreadable(f"\\{name}")
        return self.subscripted(_ALIASES.get(name, name))

    def argument(self) -> Node:
        """As TeX takes it: braces, or the next digit or atom alone (`\\frac13` is a third)."""
        if self.skips("-"):
            return negated(self.argument())
        token = self.next
        if token.kind == "number" and len(token.text) > 1 and "." not in token.text:
            first, rest = Token("number", token.text[0]), Token("number", token.text[1:])
            self.tokens[self.at : self.at + 1] = [first, rest]
        if self.next.kind == "number":
            return number(int(self.take().text)) if "." not in self.next.text else self.atom()
        return self.atom()

    def subscripted(self, name: str) -> Node:
        """The variable `name`, with its subscript if one follows."""
        if not self.skips("_"):
            return Symbol(name)
        return Operation(f"index:{name}", (self.atom(),))

    def _fraction(self, _: str) -> Node:
        return Operation("/", (self.argument(), self.argument()))

    def _binomial(self, _: str) -> Node:
        return Operation("binom", (self.argument(), self.argument()))

    def _set(self, _: str) -> Node:
        letter = self.argument()
        known = isinstance(letter, Symbol) and letter.name in _SETS
        return Symbol(_SETS[letter.name]) if known else letter  # type: ignore[union-attr]

    def _empty(self, _: str) -> Node:
        return Group("\\{", "\\}", ())

    def _root(self, _: str) -> Node:
        degree: Node = number(2)
        if self.skips("["):
            degree = self.sum()
            self.expect("]")
        return Operation("root", (self.argument(), degree))

    def _function(self, name: str) -> Node:
        base: Node | None = None
        exponent: Node | None = None
        while self.sees("_", "^"):
            if self.take().text == "_":
                base = self.argument()
            else:
                exponent = self.exponent()
        if name in INVERSE and exponent == negated(number(1)):
            name, exponent = INVERSE[name], None
        self.functions += 1
        node = Operation(_ALIASES.get(name, name), self._arguments())
        self.functions -= 1
        if name in ("log", "lg"):
            node = Operation("log", (*node.arguments, base or number(10)))
        elif base is not None:
            raise Unreadable(f"a subscript of {name}")
        return node if exponent is None else Operation("^", (node, exponent))

    def _arguments(self) -> tuple[Node, ...]:
        """What a function is applied to: a bracket, or the product up to the next function."""
        if self.sees("(", "{", "[", "\\{"):
            inner = self.atom()
            return inner.items if isinstance(inner, Group) else (inner,)
        factors = [self.signed()]
        while (self.sees("*") and self.ahead(1).text not in FUNCTIONS) or (
            self.begins_factor() and not self._at_function()
        ):
            self.skips("*")
            factors.append(self.power())
        return (product_of(factors),)

    def _at_function(self) -> bool:
        return self.next.kind == "name" and self.next.text in FUNCTIONS - {"sqrt"}

    def _series(self, name: str) -> Node:
        self.expect("_")
        lower = self.argument()
        self.expect("^")
        upper = self.argument()
        match lower:
            case Relation(("=",), (Symbol(index), first)):
                body = self.product()
                return Operation(f"{name}:{index}", (body, first, upper))
        raise Unreadable(f"the bounds of a {name}")

    def _plain(self, _: str) -> Node:
        """`\\mathrm{e}` and the like: the content, as one name if it has several letters."""
        start = self.at
        node = self.argument()
        word = "".join(t.text for t in self.tokens[start : self.at] if t.text not in "{}")
        if len(word) > 1 and word.isalpha():
            if word in FUNCTIONS:
                return self._function(word)
            return self.subscripted(word)
        return node

    def _accent(self, name: str) -> Node:
        inner = self.argument()
        if isinstance(inner, Number):
            raise Unreadable("an accent on a number")
        return Operation(f"call:{name}", (inner,)) if name != "overline" else inner

    def _unknown_function(self, name: str) -> Node:
        symbol = self.subscripted(name)
        while self.skips("'"):
            name += "'"
        if not self.sees("("):
            return symbol if not name.endswith("'") else Symbol(name)
        inner = self.atom()
        arguments = inner.items if isinstance(inner, Group) else (inner,)
        return Operation(f"call:{name}", arguments)


def _vertices(node: Node) -> Node:
    """`ABC` is `CBA`, but not `BAC`."""
    if not isinstance(node, Operation) or node.name != "*":
        return node
    letters = [factor.name for factor in node.arguments if isinstance(factor, Symbol)]
    if len(letters) != len(node.arguments):
        return node
    return Symbol("".join(min(letters, letters[::-1])))


_READERS: Mapping[str, Callable[[Any, str], Node]] = MappingProxyType(
    dict.fromkeys(("frac", "dfrac", "tfrac", "cfrac"), Names._fraction)
    | dict.fromkeys(("binom", "dbinom", "tbinom"), Names._binomial)
    | dict.fromkeys(("sum", "prod"), Names._series)
    | dict.fromkeys(
        ("mathrm", "mathbf", "mathit", "operatorname", "mathcal", "mathsf"), Names._plain
    )
    | dict.fromkeys(
        ("vec", "overline", "hat", "bar", "widehat", "overrightarrow", "tilde"), Names._accent
    )
    | dict.fromkeys(("emptyset", "varnothing"), Names._empty)
    | {"sqrt": Names._root, "mathbb": Names._set}
)
