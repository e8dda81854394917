"""Units at the end of an answer: the same quantity in another unit is another answer."""

import re

_PREFIXES = {"": "", "kilo": "k", "centi": "c", "milli": "m"}
_METRIC = {"meter": "m", "metre": "m", "gram": "g", "liter": "l", "litre": "l"}
_OTHERS = {
    "second": "s", "sec": "s", "minute": "min", "hour": "h", "hr": "h", "day": "day",
    "inch": "in", "inches": "in", "foot": "ft", "feet": "ft", "yard": "yd", "mile": "mi",
    "pound": "lb", "ounce": "oz", "dollar": "$", "cent": "¢", "degree": "°", "radian": "rad",
}  # fmt: skip
_NAMES = _OTHERS | {
    long + base: short + unit for long, short in _PREFIXES.items() for base, unit in _METRIC.items()
}
_SYMBOLS = frozenset(_NAMES.values())
_LAST = re.compile(
    r"[\d}]\s*(?:\\(?:text|mbox|mathrm)\s*\{\s*([A-Za-z]+)\.?\s*\}|([A-Za-z]{1,12}))"
    r"(?:\^\{?(\d)\}?)?$"
)


def without_unit_word(text: str) -> str:
    """`text` without a unit written out at its end, which would be read as symbols."""
    found = _LAST.search(text)
    spelled_out = found is not None and len(found.group(2) or "") > 2 and unit(text) is not None
    return text[: found.start() + 1] if found and spelled_out else text


def unit(text: str) -> tuple[str, str] | None:
    """Symbol and exponent of the unit that `text` ends with; None for none or an unknown one."""
    found = _LAST.search(text)
    if found is None:
        return None
    word = found.group(1) or found.group(2)
    name = word.lower()
    symbol = word if word in _SYMBOLS else _NAMES.get(name) or _NAMES.get(name.removesuffix("s"))
    return None if symbol is None else (symbol, found.group(3) or "1")
