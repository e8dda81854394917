"""Whether an answer is the gold one: house rules for its text and unit, then for what it says."""

import re
from decimal import Decimal
from fractions import Fraction

from rewards.verifiers.math.arithmetic import Undefined
from rewards.verifiers.math.calculus import beyond, matches
from rewards.verifiers.math.cost import too_heavy
from rewards.verifiers.math.equality import equal
from rewards.verifiers.math.nodes import Group, Many, Node, Number, Operation, Relation, is_value
from rewards.verifiers.math.reading import Answer, squeezed, tree
from rewards.verifiers.math.tokens import TooCostly, Unreadable
from rewards.verifiers.math.units import Unit
from rewards.verifiers.math.values import Evaluator
from rewards.verifiers.math.words import FUNCTIONS, number_word
from rewards.verifiers.normalisers import NORMALISERS, fold

_OPTION = re.compile(r"\(?[A-J]\)?")
_OPTIONS = re.compile(r"\(?[A-J]\)?(?:\s*(?:,|and|,\s*and)\s*\(?[A-J]\)?)+")
_CHOSEN = re.compile(r"(?i:option|choice|answer)\s+(?=\(?[A-J]\)?$)")
_NAMES = FUNCTIONS | {"infinity", "pi", "inf"}
_NUMERAL = re.compile(r"\(?([0-9][0-9A-Fa-f]*|[A-F][0-9A-F]+)\)?_\{?\s*([a-z]+|\d+)\s*\}?")
_COMMA = re.compile(r"[+-]?\d+,\d+")
_CLOCK = re.compile(r"[-\d\s]+:[\d:\s]+")
_TIME = re.compile(r"\d{1,2}\s*:\s*\d{2}")
_WORDS = re.compile(
    r"(?=.*[A-Za-z]{2})[A-Za-z]+(?:['-][A-Za-z]{2,})*(?: [A-Za-z]+(?:['-][A-Za-z]{2,})*)*\.?"
)


def compare(gold: Answer, answer: Answer) -> str | None:
    """None if `answer` is `gold`, else the reason why not: a code."""
    if gold.number is not None and answer.number is not None:
        return None if gold.number == answer.number else "mismatch"
    if gold.text and (gold.squeezed == answer.squeezed or gold.raw == answer.raw):
        return None
    for rule in (_options, _words, _times, _numerals, _commas):
        if (verdict := rule(gold, answer)) is not None:
            return None if verdict else "mismatch"
    return _quantities(gold, answer)


def _options(gold: Answer, answer: Answer) -> bool | None:
    """An option letter may be followed by the option's text; of several letters all must come."""
    wanted = gold.words
    if _OPTION.fullmatch(wanted):
        given = _CHOSEN.sub("", answer.words)
        return NORMALISERS["choice"](wanted, given)
    if _OPTIONS.fullmatch(wanted):
        letters = [set(re.findall(r"[A-J]", text)) for text in (wanted, answer.words)]
        plain = re.fullmatch(r"(?:\(?[A-J]\)?(?:\s|,|and|&)*)+", answer.words) is not None
        return plain and letters[0] == letters[1]
    return None


def _words(gold: Answer, answer: Answer) -> bool | None:
    """Words are equal folded."""
    wanted = gold.words
    if gold.number is not None or not _WORDS.fullmatch(wanted):
        return None
    if fold(wanted).strip(".") == fold(answer.words).strip("."):
        return True
    if isinstance(gold.tree, Number) or wanted.lower() in _NAMES or not _is_prose(gold, wanted):
        return None
    return False


def _is_prose(gold: Answer, wanted: str) -> bool:
    """Whether letters are words rather than variables side by side, as `ab` may be."""
    return "\\text" in gold.text or " " in wanted or len(wanted) > 2 or wanted.lower() == "no"


def _times(gold: Answer, answer: Answer) -> bool | None:
    """Times of day are equal as written; 12:00 is no ratio."""
    texts = [
        re.sub(r"\s*(?:\\text\{)?\s*[AaPp]\.?[Mm]\.?\s*\}?$", "", a.text) for a in (gold, answer)
    ]
    if not _TIME.fullmatch(texts[0]) or not _CLOCK.fullmatch(texts[1]):
        return None
    if gold.unit is not None and answer.unit is not None and gold.unit != answer.unit:
        return False
    return squeezed(texts[0]) == squeezed(texts[1])


def _numerals(gold: Answer, answer: Answer) -> bool | None:
    """Numerals with a base are equal in digits and base."""
    wanted = _NUMERAL.fullmatch(gold.words)
    if wanted is None:
        return None
    given = _NUMERAL.fullmatch(answer.words)
    return given is not None and _digits(wanted) == _digits(given)


def _digits(numeral: re.Match[str]) -> tuple[str, str]:
    base = number_word(numeral.group(2))
    return numeral.group(1).upper().lstrip("0"), numeral.group(2) if base is None else str(base)


def _commas(gold: Answer, answer: Answer) -> bool | None:
    """`3,14` is a list, or a decimal number if the other side is one."""
    for one, other in ((gold, answer), (answer, gold)):
        if one.number is not None and _has_places(one.number) and _COMMA.fullmatch(other.text):
            return one.number == Decimal(other.text.replace(",", "."))
    return None


def _has_places(value: Decimal) -> bool:
    exponent = value.as_tuple().exponent
    return isinstance(exponent, int) and exponent < 0


def _quantities(gold: Answer, answer: Answer) -> str | None:
    calculus = tree(gold) is None and beyond(gold.text)
    if answer.fault is not None and not (calculus and answer.fault == "unreadable"):
        return answer.fault
    try:
        if calculus:
            return None if matches(gold, answer) else "mismatch"
        sides = _sides(gold, answer)
        if sides is None:
            return "mismatch"
        if too_heavy(sides[1]):
            return None if sides[0] == sides[1] else "too_costly"
        return None if equal(*sides) else "mismatch"
    except _OtherUnit:
        return "unit"
    except Unreadable:
        return "unreadable"
    except (TooCostly, RecursionError):
        return "too_costly"


def costly(gold: Answer) -> bool:
    """Whether the gold answer itself cannot be evaluated, so that nothing can be told of others."""
    node = gold.tree
    if node is None or not is_value(node):
        return False
    try:
        Evaluator(0, 20).value(node)
    except (TooCostly, RecursionError):
        return True
    except (Undefined, Unreadable):
        return False
    return too_heavy(node)


class _OtherUnit(Exception):
    """The units differ in kind."""


def _sides(gold: Answer, answer: Answer) -> tuple[Node, Node] | None:
    """The trees to compare, in one unit; None if the gold text has none. May raise _OtherUnit."""
    doubtful = _doubtful(gold, answer)
    wanted, given = (
        side.doubted if doubtful and side.doubted is not None else tree(side)
        for side in (gold, answer)
    )
    if wanted is None:
        return None
    if given is None:
        raise Unreadable("no tree")
    if doubtful or gold.unit is None or answer.unit is None:
        if _percentage_and_unit(gold, answer) or _percentage_and_unit(answer, gold):
            raise _OtherUnit
        return wanted, given
    if gold.unit.dimensions != answer.unit.dimensions:
        raise _OtherUnit
    return _scaled(wanted, gold.unit), _scaled(given, answer.unit)


def _percentage_and_unit(one: Answer, other: Answer) -> bool:
    percentage = isinstance(one.tree, Operation) and one.tree.name == "%"
    return percentage and other.unit is not None


def _doubtful(gold: Answer, answer: Answer) -> bool:
    """Whether letters at an end are variables rather than a unit that the other side has too."""
    units = [gold.unit, answer.unit]
    doubts = [unit is None or unit.doubtful for unit in units]
    return all(doubts) or (
        gold.unit != answer.unit and any(u is not None and u.doubtful for u in units)
    )


def _scaled(node: Node, unit: Unit) -> Node:
    """The quantity in base units, where it is a value."""
    if unit.size == 1:
        return node
    match node:
        case Relation(signs, sides) if set(signs) == {"="}:
            return Relation(signs, (*sides[:-1], _scaled(sides[-1], unit)))
        case Many() | Group() | Relation():
            return node
    if not is_value(node):
        return node
    return Operation("*", (node, Number(Fraction(unit.size))))
