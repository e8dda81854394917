"""The vocabulary of answers: functions, named signs, and numbers in words."""

import re
from collections.abc import Mapping
from fractions import Fraction
from types import MappingProxyType

FUNCTIONS = frozenset(
    [
        "sin",
        "cos",
        "tan",
        "cot",
        "sec",
        "csc",
        "arcsin",
        "arccos",
        "arctan",
        "arccot",
        "arcsec",
        "arccsc",
        "sinh",
        "cosh",
        "tanh",
        "coth",
        "ln",
        "log",
        "lg",
        "exp",
        "sqrt",
        "max",
        "min",
        "gcd",
        "lcm",
        "det",
        "tr",
    ]
)
INVERSE: Mapping[str, str] = MappingProxyType(
    {name: f"arc{name}" for name in ("sin", "cos", "tan", "cot", "sec", "csc")}
)
NAMED_SIGNS: Mapping[str, str] = MappingProxyType(
    {
        "le": "<=", "leq": "<=", "leqslant": "<=", "ge": ">=", "geq": ">=", "geqslant": ">=",
        "lt": "<", "gt": ">", "ne": "!=", "neq": "!=", "approx": "~", "simeq": "~",
        "equiv": "equiv", "cdot": "*", "times": "*", "ast": "*", "div": "/", "pm": "+-", "mp": "+-",
        "cup": "cup", "cap": "cap", "setminus": "setminus", "in": "in", "land": "and",
        "lor": "or", "colon": ":", "lbrace": "\\{", "rbrace": "\\}", "lvert": "|", "rvert": "|",
        "vert": "|", "mid": "|", "lbrack": "[", "rbrack": "]", "langle": "(", "rangle": ")",
        "lfloor": "lfloor", "rfloor": "rfloor", "lceil": "lceil", "rceil": "rceil",
        "circ": "circ", "degree": "circ", "ldots": "...", "dots": "...", "cdots": "...",
        "to": "to", "rightarrow": "to", "bmod": "mod", "backslash": "setminus", "percent": "%",
    }
)  # fmt: skip

_SMALL = [
    "zero",
    "one",
    "two",
    "three",
    "four",
    "five",
    "six",
    "seven",
    "eight",
    "nine",
    "ten",
    "eleven",
    "twelve",
    "thirteen",
    "fourteen",
    "fifteen",
    "sixteen",
    "seventeen",
    "eighteen",
    "nineteen",
]
_TENS = ["twenty", "thirty", "forty", "fifty", "sixty", "seventy", "eighty", "ninety"]
_WORDS = {word: value for value, word in enumerate(_SMALL)} | {
    word: 10 * value for value, word in enumerate(_TENS, 2)
}


def number_word(text: str) -> int | None:
    """The value of `seven` or `twenty-one`, up to a hundred; None for all else."""
    words = re.sub(r"(?<=[a-z])-(?=[a-z])", " ", text.lower()).split()
    if words in (["hundred"], ["one", "hundred"], ["a", "hundred"]):
        return 100
    if len(words) == 1:
        return _WORDS.get(words[0])
    if len(words) == 2 and words[0] in _TENS and 0 < _WORDS.get(words[1], 0) < 10:
        return _WORDS[words[0]] + _WORDS[words[1]]
    return None


_FACTORS = {
    "dozen": 12, "score": 20, "hundred": 100, "thousand": 1000, "million": 10**6,
    "billion": 10**9, "trillion": 10**12,
}  # fmt: skip
_PARTS = {
    "half": 2, "halve": 2, "third": 3, "quarter": 4, "fourth": 4, "fifth": 5, "sixth": 6,
    "seventh": 7, "eighth": 8, "ninth": 9, "tenth": 10, "twelfth": 12, "hundredth": 100,
    "thousandth": 1000,
}  # fmt: skip


def magnitude(word: str) -> Fraction | None:
    """What `million` or `thirds` multiplies the number before it by; None for all else."""
    word = word.lower()
    one = word if word in _FACTORS or word in _PARTS else word.removesuffix("s")
    if one in _FACTORS:
        return Fraction(_FACTORS[one])
    return Fraction(1, _PARTS[one]) if one in _PARTS else None


def quantity(text: str) -> Fraction | None:
    """The value of `seven`, `two thirds` or `five hundred thousand`; None for all else."""
    if (plain := number_word(text)) is not None:
        return Fraction(plain)
    words = re.sub(r"(?<=[a-z])-(?=[a-z])", " ", text.lower()).split()
    total = Fraction(1)
    while len(words) > 1 and (factor := magnitude(words[-1])) is not None:
        total *= factor
        words.pop()
    value = 1 if total != 1 and words == ["a"] else number_word(" ".join(words))
    return None if value is None else total * value
