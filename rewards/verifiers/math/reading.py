"""An answer's text, read once: its spelling, its unit, and its tree or why it has none."""

import re
from dataclasses import dataclass
from decimal import Decimal
from functools import cached_property, lru_cache

from rewards.verifiers.math.nodes import Many, Node, Relation, Symbol, number
from rewards.verifiers.math.parser import read
from rewards.verifiers.math.spelling import bound, spell
from rewards.verifiers.math.tokens import TooCostly, Unreadable
from rewards.verifiers.math.units import Unit, split_unit
from rewards.verifiers.math.words import quantity

LONGEST = 20_000
"""Longest answer, in characters, that is parsed; plain numbers may be longer."""

_PLAIN = re.compile(r"[+-]?(?:\d+(?:\.\d*)?|\.\d+)", re.ASCII)
_GROUPED = re.compile(r"[+-]?(?!0)\d{1,3}(?:,\d{3})+(?:\.\d+)?", re.ASCII)
_IDLE_SPACE = re.compile(r"(?<!\w) | (?!\w)")
_TEXT = re.compile(r"\\text\s*\{([^{}]*)\}")
_LABEL = re.compile(
    r"((?:P|\\Pr|\\mathbb\{[PE]\}|\\text\{[A-Za-z]+\}|[a-zA-Z]\s*\^\s*\{\s*-1\s*\}"
    r"|\(?[a-z]\s*\\circ\s*[a-z]\)?)\s*\([^()]*\)|\\frac\s*\{d[a-z]\}\s*\{d[a-z]\})\s*=(?!=)"
)
"""What names a value though it does not look like a name: `P(X = 2)`, `f^{-1}(x)`, `dy/dx`."""

_DERIVATIVE = re.compile(r"\\frac\s*\{\s*d\s*\}\s*\{\s*d[a-z]\s*\}")


@dataclass(frozen=True)
class Answer:
    """`raw` is the text given, `text` its spelling; `tree` is what it says without its `unit`;
    where there is none, `fault` tells why. `bound` is the variable of a set given by a condition.

    A plain decimal is only a `number`: it needs no tree until it meets something else.
    """

    raw: str
    text: str
    number: Decimal | None = None
    unit: Unit | None = None
    tree: Node | None = None
    doubted: Node | None = None
    fault: str | None = None
    bound: str | None = None

    @cached_property
    def squeezed(self) -> str:
        """Its text without white space that means nothing."""
        return squeezed(self.text)

    @property
    def words(self) -> str:
        """Its text without markup."""
        return _TEXT.sub(r"\1", self.text).strip().strip(".").strip()


def squeezed(text: str) -> str:
    """`text` without white space, but for one space between letters or digits."""
    return _IDLE_SPACE.sub("", re.sub(r"\s+", " ", text))


def read_answer(text: str) -> Answer:
    """Read `text`; never raises. Cached, since a gold answer meets many candidates."""
    plain = text.strip().strip("$").strip()
    if _PLAIN.fullmatch(plain):
        return Answer(plain, plain, number=Decimal(plain))
    if _GROUPED.fullmatch(plain):
        return Answer(plain, plain.replace(",", ""), number=Decimal(plain.replace(",", "")))
    if len(text) > LONGEST:
        return Answer(text, text, fault="too_costly")
    return _read(text)


@lru_cache(maxsize=1024)
def _read(text: str) -> Answer:
    raw, spelled = squeezed(text.strip().strip("$")), spell(text)
    if _PLAIN.fullmatch(spelled):
        return Answer(raw, spelled, number=Decimal(spelled))
    bare, unit = split_unit(spelled)
    if unit is not None:
        bare = spell(bare)
    tree, fault = _tree(bare)
    doubted = _tree(spelled)[0] if unit is not None and unit.doubtful else None
    return Answer(raw, spelled, unit=unit, tree=tree, doubted=doubted, fault=fault,
                  bound=bound(text))  # fmt: skip


def rebound(answer: Answer, name: str | None) -> Answer:
    """`answer` with its bound variable called `name`, if it has one and `name` is free there."""
    if None in (name, answer.bound) or name == answer.bound:
        return answer
    letters = set(re.findall(r"(?<![A-Za-z\\])[a-z](?![A-Za-z])", answer.text))
    if name in letters:
        return answer
    old = rf"(?<![A-Za-z\\]){answer.bound}(?![A-Za-z])"
    return read_answer(re.sub(old, str(name), answer.text))


def tree(answer: Answer) -> Node | None:
    """Its tree, built now if it is a plain number, not too long to be more than compared."""
    if answer.number is None or len(answer.text) > LONGEST:
        return answer.tree
    return _tree(answer.text)[0]


def _tree(text: str) -> tuple[Node | None, str | None]:
    words = _TEXT.sub(r"\1", text).strip()
    if (value := quantity(words)) is not None:
        return number(value), None
    try:
        return _labelled(text) or read(text), None
    except Unreadable:
        return None, "unreadable"
    except (TooCostly, RecursionError):
        return None, "too_costly"


def _labelled(text: str) -> Node | None:
    """The value of what a label names, as an equation; None if there is no label."""
    if _DERIVATIVE.search(text):
        raise Unreadable("a derivative to be worked out")
    label = _LABEL.match(text)
    if label is None:
        return None
    said, name = read(text[label.end() :]), Symbol(squeezed(label.group(1)))
    match said:
        case Relation(signs, sides) if set(signs) == {"="}:
            return Relation(("=", *signs), (name, *sides))
        case Relation() | Many():
            return None
    return Relation(("=",), (name, said))
