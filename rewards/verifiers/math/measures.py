"""Names of units and their sizes, and the words beside a number that name none."""

from fractions import Fraction

PREFIXES = {
    "": ("", Fraction(1)), "kilo": ("k", Fraction(1000)), "centi": ("c", Fraction(1, 100)),
    "milli": ("m", Fraction(1, 1000)), "deci": ("d", Fraction(1, 10)),
    "micro": ("µ", Fraction(1, 10**6)), "mega": ("M", Fraction(10**6)),
}  # fmt: skip
"""Of metric units: long -> short, and how many."""

METRIC = {"meter": "m", "gram": "g", "liter": "L", "joule": "J", "watt": "W", "newton": "N"}
"""Units that take prefixes: long -> short."""

_DAY = 24 * 3600
OTHERS: dict[str, tuple[str, Fraction, tuple[str, ...]]] = {
    "second": ("time", Fraction(1), ("s", "sec")),
    "millisecond": ("time", Fraction(1, 1000), ("ms",)),
    "minute": ("time", Fraction(60), ("min",)),
    "hour": ("time", Fraction(3600), ("h", "hr")),
    "day": ("time", Fraction(_DAY), ()),
    "week": ("time", Fraction(7 * _DAY), ()),
    "month": ("month", Fraction(1), ()),
    "year": ("month", Fraction(12), ("yr",)),
    "inch": ("inch", Fraction(1), ("in",)),
    "foot": ("inch", Fraction(12), ("ft", "feet")),
    "yard": ("inch", Fraction(36), ("yd",)),
    "mile": ("inch", Fraction(63360), ("mi",)),
    "ounce": ("ounce", Fraction(1), ("oz",)),
    "pound": ("ounce", Fraction(16), ("lb",)),
    "dollar": ("$", Fraction(1), ("$", "USD", "usd")),
    "cent": ("$", Fraction(1, 100), ("¢",)),
    "euro": ("€", Fraction(1), ("€", "EUR")),
    "pounds sterling": ("£", Fraction(1), ("£", "GBP")),
    "degree": ("°", Fraction(1), ("°", "deg")),
    "radian": ("rad", Fraction(1), ("rad",)),
    "celsius": ("°C", Fraction(1), ("°C",)),
    "fahrenheit": ("°F", Fraction(1), ("°F",)),
    "am": ("am", Fraction(1), ("AM",)),
    "pm": ("pm", Fraction(1), ("PM",)),
}  # fmt: skip
"""Other units: dimension, size, and symbols."""

SPEEDS = {"mph": "mi/h", "kmph": "km/h", "kmh": "km/h", "kph": "km/h"}
"""Written as one word -> as a ratio."""

POWERS = {"square": 2, "sq": 2, "cubic": 3, "cu": 3}
"""Words that raise a unit."""

STOPWORDS = frozenset(
    [
        "is",
        "not",
        "or",
        "and",
        "but",
        "if",
        "maybe",
        "wrong",
        "between",
        "no",
        "than",
        "to",
        "from",
        "about",
        "approximately",
        "except",
        "either",
        "neither",
        "nor",
        "possibly",
        "perhaps",
        "otherwise",
        "unless",
        "when",
        "where",
        "while",
        "plus",
        "minus",
        "times",
        "incorrect",
        "impossible",
        "undefined",
        "false",
        "true",
        "none",
        "any",
        "all",
    ]
)
"""Words that are no things to be counted."""

BOUNDS = frozenset(
    [
        "least",
        "most",
        "minimum",
        "maximum",
        "max",
        "min",
        "more",
        "less",
        "fewer",
        "greater",
        "over",
        "under",
        "above",
        "below",
        "beyond",
        "negative",
        "inverse",
        "reciprocal",
        "opposite",
        "squared",
        "cubed",
        "factorial",
        "half",
        "double",
        "twice",
        "triple",
        "thrice",
        "infinity",
        "infinite",
        "degrees",
        "radians",
        "percent",
        "mod",
        "modulo",
        "base",
        "pi",
        "alpha",
        "beta",
        "gamma",
        "delta",
        "epsilon",
        "theta",
        "lambda",
        "mu",
        "rho",
        "sigma",
        "tau",
        "phi",
        "omega",
        "gross",
        "imaginary",
    ]
)
"""Words that say another value than the number before them, so that none counts things."""

PLURALS = {
    "people": "person", "men": "man", "women": "woman", "children": "child", "feet": "foot",
    "mice": "mouse", "geese": "goose", "teeth": "tooth", "dice": "die", "halves": "half",
    "vertices": "vertex", "matrices": "matrix", "indices": "index",
}  # fmt: skip
"""Whose last letters are no rule."""

FUNCTIONS = frozenset(["sin", "cos", "tan", "sqrt", "log", "infty", "frac", "text", "exp"])
"""Names that LaTeX gives to what is no unit."""
