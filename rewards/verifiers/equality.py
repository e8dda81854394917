"""Whether two mathematical texts say the same: house rules first, Math-Verify for the rest.

Each rule decides (True, False) or leaves the question to the next (None). Rules exist where
Math-Verify is wrong as a kind (verifier-findings section 1): units, number bases, families such as
`\\pm 1`, one-sided inequalities, tiny and huge numbers, words.
"""

import logging
import re
from collections.abc import Callable
from dataclasses import dataclass
from decimal import Decimal
from functools import lru_cache
from typing import Any

from math_verify import parse
from math_verify import verify as matches
from math_verify.parser import ExprExtractionConfig, LatexExtractionConfig
from sympy import Basic, Expr, Float, I, N, Set, Tuple, expand, nan, zoo
from sympy.core.relational import Relational
from sympy.logic.boolalg import Boolean

from rewards.verifiers.cost import too_large
from rewards.verifiers.latex import spell
from rewards.verifiers.normalisers import NORMALISERS, decimal, fold
from rewards.verifiers.units import unit, without_unit_word

logging.getLogger("math_verify").setLevel(logging.ERROR)  # It warns that its alarms are off.

_BASED = re.compile(r"([0-9A-F]+)_\{?(\d+)\}?")
_TEXT = re.compile(r"\\(?:text|mbox|textbf|mathrm|mathbf|textit)\s*\{([^{}]*)\}")
_RELATION = re.compile(r"(?:[<>]|\\(?:le|leq|ge|geq|lt|gt|ne|neq)(?![a-zA-Z]))")
_POWER = re.compile(r"([+-]?\d+(?:\.\d+)?)\s*\\(?:times|cdot)\s*10\^\{?([+-]?\d{1,4})\}?")
_OPTION = re.compile(r"\(?[A-J]\)?")
_APART = 1e-5
_SAME = 1e-12
_DIGITS = 30


@dataclass(frozen=True)
class Side:
    """One side of a comparison: its spelling and what Math-Verify reads there, best first."""

    text: str
    parsed: tuple[Any, ...]

    @property
    def best(self) -> Any:
        """The expression, or the text where there is none."""
        return self.parsed[0]


@lru_cache(maxsize=4096)
def read(text: str) -> Side:
    """Read an answer that stands alone; nothing is parsed if nothing can be."""
    text = spell(text)
    bare = without_unit_word(text)
    return Side(text, (bare,) if number(bare) is not None else _parsed(bare))


@lru_cache(maxsize=4096)
def _parsed(text: str) -> tuple[Any, ...]:
    found = parse(rf"\boxed{{{text}}}", [LatexExtractionConfig()], parsing_timeout=None)
    return tuple(found) if text else ()


@dataclass(frozen=True)
class Number:
    """A number as written: its value, exactly, and that of its hundredth if a percent sign stood.

    Not divided but written anew, since decimal arithmetic rounds.
    """

    value: Decimal
    percent: Decimal | None = None


def number(text: str) -> Number | None:
    """A plain decimal, percentage or power-of-ten number; None for all else."""
    if power := _POWER.fullmatch(text):
        return Number(Decimal(f"{power.group(1)}e{power.group(2)}"))
    bare = text.removesuffix("%").removesuffix("\\").rstrip() if text.endswith("%") else text
    if (value := decimal(bare)) is None:
        return None
    return Number(value, None if bare == text else Decimal(f"{bare}e-2"))


def read_prose(text: str) -> Side:
    """Read the answer out of running text, as Math-Verify finds it."""
    configs = [LatexExtractionConfig(), ExprExtractionConfig()]
    return Side("", tuple(parse(text, configs, parsing_timeout=None)))


def equal(gold: Side, answer: Side) -> bool:
    """Whether `answer` says what `gold` says. May run without end: the caller is the bound."""
    for rule in _RULES:
        if (verdict := rule(gold, answer)) is not None:
            return verdict
    return bool(matches(_values(gold), _values(answer), timeout_seconds=None))


def _values(side: Side) -> list[Any]:
    """What Math-Verify compares; a plain number is parsed only here, off the fast path."""
    if (plain := number(side.text)) is None:
        return list(side.parsed)
    return list(_parsed(side.text if plain.percent is None else f"{plain.percent:f}"))


def _numbers(gold: Side, answer: Side) -> bool | None:
    """Plain numbers are equal in value, exactly; of a percentage gold the sign may be missing."""
    wanted, given = number(gold.text), number(answer.text)
    if wanted is None or given is None:
        return None
    if (wanted.percent is None) == (given.percent is None):
        return wanted.value == given.value
    if wanted.percent is None:
        return wanted.value == given.percent
    return given.value in (wanted.value, wanted.percent)


def _bases(gold: Side, answer: Side) -> bool | None:
    """Numerals with a base are equal in digits and base."""
    wanted, given = _BASED.fullmatch(gold.text), _BASED.fullmatch(answer.text)
    if wanted and given:
        return wanted.groups() == given.groups()
    return False if wanted and decimal(answer.text) is not None else None


def _words(gold: Side, answer: Side) -> bool | None:
    """Words are equal folded; an option letter may be followed by the option's text."""
    wanted, given = _TEXT.sub(r"\1", gold.text).strip(), _TEXT.sub(r"\1", answer.text).strip()
    if not answer.text:
        return None
    if _OPTION.fullmatch(wanted) and NORMALISERS["mcq"](wanted, given):
        return True
    if _TEXT.fullmatch(gold.text) and re.search(r"[A-Za-z]{2}", wanted):
        return fold(wanted) == fold(given)
    return None


def _units(gold: Side, answer: Side) -> bool | None:
    """Different units are different answers; a missing one is not held against either side."""
    wanted, given = unit(gold.text), unit(answer.text)
    return False if wanted and given and wanted != given else None


def _families(gold: Side, answer: Side) -> bool | None:
    """`\\pm` stands for several values: never equal to a single one."""
    single = isinstance(gold.best, Expr) or decimal(gold.text) is not None
    return False if single and "\\pm" in answer.text and "\\pm" not in gold.text else None


def _relations(gold: Side, answer: Side) -> bool | None:
    """An inequality is no value, and an equation is not one of its sides."""
    if isinstance(gold.best, Relational | Boolean | Set | Tuple | str) and not decimal(gold.text):
        return _dropped_side(gold, answer)
    return False if _RELATION.search(answer.text) and not _RELATION.search(gold.text) else None


def _dropped_side(gold: Side, answer: Side) -> bool | None:
    left, equals, _ = gold.text.partition("=")
    named = re.fullmatch(r"[^+*/^\d-]*|.*\([^()]*\)|.*[,;:].*", left.strip()) is not None
    return False if equals and not named and "=" not in answer.text else None


def _magnitudes(gold: Side, answer: Side) -> bool | None:
    """Huge numbers are compared by form only; constants that are clearly apart are not equal."""
    wanted, given = (_values(side)[0] for side in (gold, answer))
    if not isinstance(wanted, Basic) or not isinstance(given, Basic):
        return None
    if too_large(wanted) or too_large(given):
        return bool(wanted == given)
    if not isinstance(wanted, Expr) or not isinstance(given, Expr):
        return None
    wanted, given = _with_unit_i(wanted), _with_unit_i(given)
    if expand(wanted - given) == 0:
        return True
    return None if wanted.free_symbols or given.free_symbols else _constants(wanted, given)


def _with_unit_i(expression: Expr) -> Expr:
    """With `i` as the imaginary unit, where no other symbol says that it is an index."""
    symbols = expression.free_symbols
    imaginary = len(symbols) == 1 and str(next(iter(symbols))) == "i"
    return expression.subs(dict.fromkeys(symbols, I)) if imaginary else expression


def _constants(wanted: Expr, given: Expr) -> bool | None:
    """Clearly apart or, where floats hide it, equal; Math-Verify decides between."""
    a, b = N(wanted, _DIGITS), N(given, _DIGITS)
    if any(side.has(nan, zoo) for side in (a, b)):
        return False
    if not (a.is_comparable and b.is_comparable):
        return True if abs(N(a - b)) < _SAME else None
    if wanted.has(Float) or given.has(Float):
        return None
    apart = abs(a - b) > _APART * max(abs(a), abs(b))
    return False if bool(apart) else None


_RULES: tuple[Callable[[Side, Side], bool | None], ...] = (
    _numbers,
    _bases,
    _words,
    _units,
    _families,
    _relations,
    _magnitudes,
)
