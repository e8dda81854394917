"""Units at the end of an answer: the same quantity in another unit is written otherwise."""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from fractions import Fraction

from rewards.verifiers.math import measures
from rewards.verifiers.math.words import magnitude, number_word

_POWER = r"(?:\^\{?-?\d\}?)?"
_CIRCLE = re.compile(
    r"\s*(?:\^\s*\{?\s*\\circ\s*\}?|\\degree|\^\s*\\degree)\s*(?:\\text\{\s*([CF])\s*\}|([CF]))?$"
)
_TRIGONOMETRY = re.compile(r"\\(?:arc)?(?:sin|cos|tan|cot|sec|csc)(?![a-z])")
_TERM = rf"\{{\s*(?:\\text\{{([^{{}}]*)\}}({_POWER})|([A-Za-z]+{_POWER}))\s*\}}"
_RATE = re.compile(rf"\s*\\[dt]?frac\s*{_TERM}\s*{_TERM}$")
_WRITTEN = re.compile(rf"\s*((?:\\text\{{[^{{}}]*\}}{_POWER}\s*(?:/|\\cdot|\*)?\s*)+)$")
_BARE = re.compile(
    rf"(?:(?<=[\d}}).])|(?<=\\pi)(?=\s+[cm]m\b))\s*([A-Za-zµ]+{_POWER}(?:(?:\s+|\s*/\s*)[A-Za-zµ]+{_POWER})*)$"
)
_PART = r"(\d+(?:\.\d+)?)\s*([A-Za-z]+)\.?"
_COMPOUND = re.compile(rf"{_PART}(?:\s*,)?(?:\s*and(?=[\s\d]))?\s*{_PART}")
_LONGEST = 100
"""Characters at the end of an answer in which its unit is sought."""
_MONEY = re.compile(r"^(?:\\?\$|€|£|¥|USD|EUR|GBP)\s*|^\\text\{\s*(?:\\?\$|€|£|USD|EUR)\s*\}")


@dataclass(frozen=True)
class Unit:
    """A quantity's unit: powers of dimensions, and its size in their base units.

    `dimensions` is None for things counted; `words` tell what they are (`apples`).
    """

    dimensions: tuple[tuple[str, int], ...] | None = None
    size: Fraction = Fraction(1)
    doubtful: bool = field(default=False, compare=False)
    words: tuple[str, ...] = field(default=(), compare=False)

    def denies(self, other: "Unit") -> bool:
        """Whether both count things, and not the same: `apples` may be `red apples`."""
        least = min(len(self.words), len(other.words))
        return least > 0 and self.words[-least:] != other.words[-least:]


def _base_units() -> Mapping[str, tuple[str, int, Fraction]]:
    """Name or symbol -> dimension, its power, size."""
    found: dict[str, tuple[str, int, Fraction]] = {}
    for name, symbol in measures.METRIC.items():
        for long, (short, size) in measures.PREFIXES.items():
            entry = (
                ("length", 3, size / 1000) if symbol == "L" else
                ("length" if symbol == "m" else symbol, 1, size)
            )  # fmt: skip
            found |= {long + name: entry, short + symbol: entry}
            if name.endswith("er"):
                found[long + name[:-2] + "re"] = entry
            if symbol == "L":
                found[short + "l"] = entry
    for name, (dimension, size, symbols) in measures.OTHERS.items():
        found |= dict.fromkeys((name, *symbols), (dimension, 1, size))
    return found


_UNITS = _base_units()


def split_unit(text: str) -> tuple[str, Unit | None]:
    """Spelled `text` without the unit at its end (or the currency before it), and that unit."""
    if (compound := _compound(text)) is not None:
        return compound
    money = _MONEY.match(text)
    if money is None or re.search(r"\d", text) is None:
        return _split_end(text)
    rest, after = _split_end(text[money.end() :])
    sign = re.sub(r"[\\\s{}]|text", "", money.group())
    if after is None or after.dimensions is not None:
        return rest, after or _looked_up(sign)
    return rest, replace(_looked_up(sign), words=after.words)


def _compound(text: str) -> tuple[str, Unit] | None:
    """`5 ft 6 in`: the sum, in the smaller unit."""
    match = _COMPOUND.fullmatch(re.sub(r"\\text\{([^{}]*)\}", r" \1 ", text).strip())
    if match is None:
        return None
    first, large, second, small = match.groups()
    units = [parse_unit(large), parse_unit(small)]
    if units[0] is None or units[1] is None or units[0].dimensions != units[1].dimensions:
        return None
    if units[0].size <= units[1].size:
        return None
    total = Fraction(first) * units[0].size / units[1].size + Fraction(second)
    return rf"\frac{{{total.numerator}}}{{{total.denominator}}}", units[1]


def _split_end(text: str) -> tuple[str, Unit | None]:
    begin = max(0, len(text) - _LONGEST)
    circle = _CIRCLE.search(text, begin)
    if circle is not None and circle.start() and not _TRIGONOMETRY.search(text):
        return text[: circle.start()], _looked_up(f"°{circle.group(1) or circle.group(2) or ''}")
    if (rate := _RATE.search(text, begin)) is not None and rate.start():
        over, raised, bare, under, lowered, below = rate.groups()
        unit = parse_unit(f"{bare or over + raised}/{below or under + lowered}")
        if unit is not None:
            doubtful = bare is not None or below is not None
            return text[: rate.start()], replace(unit, doubtful=doubtful)
        return text, None
    if (written := _WRITTEN.search(text, begin)) is not None and written.start():
        phrase = re.sub(r"\\text\{([^{}]*)\}", r" \1 ", written.group(1))
        unit = parse_unit(phrase) or _counted(phrase)
        return (text, None) if unit is None else (text[: written.start()].rstrip(), unit)
    for sign in ("$", "€", "£", "¢"):
        if text.endswith(sign) and len(text) > 1:
            return text.removesuffix(sign).removesuffix("\\").rstrip(), _looked_up(sign)
    bare = _BARE.search(text, begin)
    return (text, None) if bare is None or not bare.start() else _bare(text, bare.group(1).strip())


def _bare(text: str, phrase: str) -> tuple[str, Unit | None]:
    """Words without markup: letters may be variables, so they count only if they name a unit."""
    head = text[: -len(phrase)].rstrip()
    unit = parse_unit(phrase)
    if unit is not None:
        doubtful = re.fullmatch(rf"[A-Za-z]{_POWER}(?:\s+[A-Za-z]{_POWER})*", phrase) is not None
        return head, replace(unit, doubtful=doubtful)
    words = phrase.split()
    if all(len(word) > 3 and word.isalpha() for word in words) and re.search(r"\d$", head):
        counted = _counted(phrase)
        return (text, None) if counted is None else (head, counted)
    return text, None


def _counted(phrase: str) -> Unit | None:
    words = re.sub(r"\^\{?\d\}?|\.", "", phrase.lower()).split()
    plain = all(word.isalpha() for word in words) and 0 < len(words) <= 4
    if any(number_word(word) is not None or magnitude(word) is not None for word in words):
        return None
    if not plain or (measures.STOPWORDS | measures.BOUNDS | measures.FUNCTIONS) & set(words):
        return None
    if not all(len(word) > 1 for word in words):
        return None
    return Unit(words=tuple(map(_singular, words)))


def _singular(word: str) -> str:
    if word in measures.PLURALS:
        return measures.PLURALS[word]
    if word.endswith("ies") and len(word) > 4:
        return f"{word[:-3]}y"
    if word.endswith(("ches", "shes", "sses", "xes")):
        return word[:-2]
    return word.removesuffix("s") if not word.endswith("ss") else word


def alike(one: Unit, other: Unit) -> bool:
    """Whether both measure the same; a pound may be one of money."""
    kinds = {one.dimensions, other.dimensions}
    sterling = kinds == {_looked_up("£").dimensions, (("ounce", 1),)}
    return len(kinds) == 1 or (sterling and {one.size, other.size} == {Fraction(1), Fraction(16)})


def parse_unit(phrase: str) -> Unit | None:
    """The unit that `phrase` names, such as `square centimeters` or `km/h`; None for none."""
    phrase = phrase.strip().strip(".").replace("p.m", "pm").replace("a.m", "am")
    phrase = measures.SPEEDS.get(phrase.lower(), phrase)
    over, *under = re.split(r"\s*/\s*|\s+per\s+", phrase)
    powers: dict[str, int] = {}
    size = Fraction(1)
    for part, sign in [(over, 1), *((part, -1) for part in under)]:
        factors = _factors(part)
        if not factors:
            return None
        for dimension, power, scale in factors:
            powers[dimension] = powers.get(dimension, 0) + sign * power
            size *= scale**sign
    return Unit(tuple(sorted((d, p) for d, p in powers.items() if p)), size)


def _factors(part: str) -> list[tuple[str, int, Fraction]] | None:
    found: list[tuple[str, int, Fraction]] = []
    raised = 1
    for word in re.findall(r"[^\s*^]+(?:\s*\^\s*\{?-?\d\}?)?", part):
        if word.lower().strip(".") in measures.POWERS:
            raised = measures.POWERS[word.lower().strip(".")]
            continue
        if word.lower() in ("squared", "cubed") and found:
            dimension, power, size = found.pop()
            times = 2 if word.lower() == "squared" else 3
            found.append((dimension, power * times, size**times))
            continue
        name, _, exponent = word.partition("^")
        entry = _entry(name.strip())
        if entry is None:
            return None
        power = raised * int(re.sub(r"[{}\s]", "", exponent) or 1)
        found.append((entry[0], entry[1] * power, entry[2] ** power))
        raised = 1
    return found


def _entry(name: str) -> tuple[str, int, Fraction] | None:
    name = name.strip(".")
    for form in (
        name,
        name.lower(),
        name.lower().removesuffix("s"),
        name.lower().removesuffix("es"),
    ):
        if form in _UNITS and (len(form) > 1 or form == name):
            return _UNITS[form]
    return None


def _looked_up(sign: str) -> Unit:
    if sign not in _UNITS:
        return Unit()
    dimension, power, size = _UNITS[sign]
    return Unit(((dimension, power),), size)
