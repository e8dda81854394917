"""Whether an answer is the gold one: house rules for its text and unit, then for what it says."""

import re
from decimal import Decimal
from fractions import Fraction

from rewards.verifiers.math.arithmetic import Undefined
from rewards.verifiers.math.calculus import beyond, matches
from rewards.verifiers.math.cost import too_heavy
from rewards.verifiers.math.equality import equal
from rewards.verifiers.math.nodes import (
    Group,
    Many,
    Node,
    Number,
    Operation,
    Relation,
    Symbol,
    is_value,
    number,
    walk,
)
from rewards.verifiers.math.reading import Answer, rebound, squeezed, tree
from rewards.verifiers.math.tokens import TooCostly, Unreadable
from rewards.verifiers.math.units import Unit, alike
from rewards.verifiers.math.values import MOST_WORK, Evaluator, allowance
from rewards.verifiers.math.words import FUNCTIONS, number_word
from rewards.verifiers.normalisers import NORMALISERS, fold

_OPTION = re.compile(r"\(?[A-J]\)?")
_OPTIONS = re.compile(r"\(?[A-J]\)?(?:\s*(?:,|and|,\s*and)\s*\(?[A-J]\)?)+")
_LABELLED = re.compile(r"\(?([A-J])(?:\)|[.:]\s)\s*\S")
_CHOSEN = re.compile(r"(?i:option|choice|answer)\s+(?=\(?[A-J]\)?$)")
_NAMES = FUNCTIONS | {"infinity", "pi", "inf"}
_NUMERAL = re.compile(
    r"\(?([0-9][0-9A-Fa-f]*|[A-F][0-9A-F]+|[a-f][0-9a-f]+(?=\)?_\{?16))\)?_\{?\s*([a-z]+|\d+)\s*\}?"
)
_RESIDUE = re.compile(
    r"(?:([A-Za-z]\w{0,5})\s*\\equiv\s*)?(-?\d{1,50})\s*"
    r"(?:\(\s*\\?b?mod|\\mod)\s*\{?(\d{1,50})\}?\s*\)?"
)
_CALL = re.compile(r"([A-Z])\(([A-Z])\)")
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
    answer = rebound(answer, gold.bound)
    for rule in (_options, _words, _times, _numerals, _residues, _calls, _commas):
        if (verdict := rule(gold, answer)) is not None:
            return None if verdict else "mismatch"
    with allowance():
        return _quantities(gold, answer)


def _options(gold: Answer, answer: Answer) -> bool | None:
    """An option letter may be followed by the option's text; of several letters all must come."""
    wanted, given = (_CHOSEN.sub("", side.words) for side in (gold, answer))
    if _LABELLED.match(wanted) and _OPTION.fullmatch(given):
        return NORMALISERS["choice"](given, wanted)
    if _OPTION.fullmatch(wanted):
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


def _residues(gold: Answer, answer: Answer) -> bool | None:
    """Residues of one modulus are equal modulo that; the least one may stand without it."""
    wanted, given = (_RESIDUE.fullmatch(side.words) for side in (gold, answer))
    for one, other in ((wanted, answer.number), (given, gold.number)):
        if one is not None and other is not None:
            return other == int(one.group(2))
    if wanted is None or given is None:
        return None
    names = {match.group(1).strip() for match in (wanted, given) if match.group(1)}
    moduli = {int(match.group(3)) for match in (wanted, given)}
    if len(names) > 1 or len(moduli) > 1 or moduli == {0}:
        return False
    return (int(wanted.group(2)) - int(given.group(2))) % moduli.pop() == 0


def _calls(gold: Answer, answer: Answer) -> bool | None:
    """`P(A)` is not `A(P)`."""
    wanted, given = (_CALL.fullmatch(side.squeezed) for side in (gold, answer))
    return None if wanted is None or given is None else wanted.groups() == given.groups()


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
            if answer.unit is not None and answer.unit.dimensions != _dimensions(gold):
                raise _OtherUnit
            return None if matches(gold, answer) else "mismatch"
        sides = _sides(gold, answer)
        if sides is None:
            return "mismatch"
        if any(map(too_heavy, sides)):
            return None if sides[0] == sides[1] else "too_costly"
        return None if equal(*sides) else "mismatch"
    except _OtherUnit:
        return "unit"
    except Unreadable:
        return "unreadable"
    except (TooCostly, RecursionError):
        return "too_costly"


def _dimensions(gold: Answer) -> tuple[tuple[str, int], ...] | None:
    return None if gold.unit is None else gold.unit.dimensions


def costly(gold: Answer) -> bool:
    """Whether the gold answer itself cannot be evaluated, so that nothing can be told of others."""
    node = gold.tree
    if node is None or too_heavy(node):
        return node is not None
    if not is_value(node):
        return False
    try:
        with allowance(MOST_WORK / 4):
            Evaluator(0, 20).value(node)
    except (TooCostly, RecursionError):
        return True
    except (Undefined, Unreadable):
        return False
    return False


class _OtherUnit(Exception):
    """The units differ in kind."""


def _sides(gold: Answer, answer: Answer) -> tuple[Node, Node] | None:
    """The trees to compare, in one unit; None if the gold text has none. May raise _OtherUnit."""
    if gold.unit is not None and answer.unit is not None and gold.unit.denies(answer.unit):
        raise _OtherUnit
    doubtful = _doubtful(gold, answer)
    wanted, given = (
        side.doubted if doubtful and side.doubted is not None else tree(side)
        for side in (gold, answer)
    )
    if wanted is None:
        return None
    if given is None:
        raise Unreadable("no tree")
    if (turned := _in_radians(gold, answer)) is not None:
        return turned
    if doubtful or gold.unit is None or answer.unit is None:
        if _percentage_and_unit(gold, answer) or _percentage_and_unit(answer, gold):
            raise _OtherUnit
        return wanted, given
    if gold.unit.denies(answer.unit) or not _measure_alike(gold.unit, answer.unit):
        raise _OtherUnit
    if gold.unit.dimensions != answer.unit.dimensions:
        return wanted, given
    return _scaled(wanted, gold.unit), _scaled(given, answer.unit)


def _percentage_and_unit(one: Answer, other: Answer) -> bool:
    first, second = (isinstance(a.tree, Operation) and a.tree.name == "%" for a in (one, other))
    return first and not second and other.unit is not None


def _measure_alike(one: Unit, other: Unit) -> bool:
    """Whether the units are of one kind; of money it may be said only what it is."""
    said = bool(one.words and other.words)
    return alike(one, other) or (said and None in (one.dimensions, other.dimensions))


def _in_radians(gold: Answer, answer: Answer) -> tuple[Node, Node] | None:
    """The trees if one side gives degrees and the other a multiple of pi, as radians do."""
    sides: list[Node] = []
    for one, other in ((gold, answer), (answer, gold)):
        node, degrees = tree(one), one.unit is not None and one.unit.dimensions == (("°", 1),)
        if node is None or not is_value(node):
            return None
        turns = other.tree is not None and Symbol("pi") in walk(other.tree)
        if degrees and turns and (other.unit is None or other.unit.dimensions == (("rad", 1),)):
            node = Operation("*", (node, Operation("/", (Symbol("pi"), number(180)))))
        sides.append(node)
    same = sides == [tree(gold), tree(answer)]
    return None if same else (sides[0], sides[1])


def _doubtful(gold: Answer, answer: Answer) -> bool:
    """Whether letters at an end are variables rather than a unit that the other side has too."""
    units = [gold.unit, answer.unit]
    doubts = [unit is None or unit.doubtful for unit in units]
    if all(doubts) or gold.unit is None or answer.unit is None:
        return all(doubts) or any(unit is not None and unit.doubtful for unit in units)
    return gold.unit.dimensions != answer.unit.dimensions and (
        gold.unit.doubtful or answer.unit.doubtful
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
