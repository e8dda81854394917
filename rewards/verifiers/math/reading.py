"""An answer's text, read once: its spelling, its unit, and its tree or why it has none."""

import re
from dataclasses import dataclass
from decimal import Decimal
from functools import cached_property, lru_cache

from rewards.verifiers.math.nodes import Node, number
from rewards.verifiers.math.parser import read
from rewards.verifiers.math.spelling import spell
from rewards.verifiers.math.tokens import TooCostly, Unreadable
from rewards.verifiers.math.units import Unit, split_unit
from rewards.verifiers.math.words import quantity

LONGEST = 20_000
"""Longest answer, in characters, that is parsed; plain numbers may be longer."""

_PLAIN = re.compile(r"[+-]?(?:\d+(?:\.\d*)?|\.\d+)", re.ASCII)
_GROUPED = re.compile(r"[+-]?(?!0)\d{1,3}(?:,\d{3})+(?:\.\d+)?", re.ASCII)
_IDLE_SPACE = re.compile(r"(?<!\w) | (?!\w)")
_TEXT = re.compile(r"\\text\s*\{([^{}]*)\}")


@dataclass(frozen=True)
class Answer:
    """`raw` is the text given, `text` its spelling; `tree` is what it says without its `unit`;
    where there is none, `fault` tells why.

    A plain decimal is only a `number`: it needs no tree until it meets something else.
    """

    raw: str
    text: str
    number: Decimal | None = None
    unit: Unit | None = None
    tree: Node | None = None
    doubted: Node | None = None
    fault: str | None = None

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
    return Answer(raw, spelled, unit=unit, tree=tree, doubted=doubted, fault=fault)


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
        return read(text), None
    except Unreadable:
        return None, "unreadable"
    except (TooCostly, RecursionError):
        return None, "too_costly"
