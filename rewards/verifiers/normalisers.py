"""Normalisers of exact match: each tells whether an answer is the gold one, by published rules.

* strict: equal code points.
* default: if the gold is a plain decimal number, equal value, exactly; else equal after `fold`.
* numeric: both are numbers (thousands may be grouped by commas, exponents given); equal value.
* squad: as SQuAD (lower case, no punctuation, no articles), but numbers by value, and as `default`
  where nothing of the gold would be left.
* mcq: the one option letter of the answer, alone or followed by the option's text.

`fold`: Unicode NFKC, U+2212 as hyphen, zero-width characters dropped, white space folded, one
trailing full stop dropped, case folded (so choices and text compare without case).
"""

import re
import string
import unicodedata
from collections.abc import Callable, Mapping
from decimal import Decimal
from types import MappingProxyType

_INVISIBLE = dict.fromkeys(map(ord, "\u200b\u2060\ufeff\u00ad")) | {0x2212: "-"}
_PLAIN = re.compile(r"[+-]?(?:[0-9]+\.?[0-9]*|\.[0-9]+)")
_GROUPED = re.compile(r"([+-]?[0-9]{1,3}(?:,[0-9]{3})+)(\.[0-9]*)?")
_EXPONENT = re.compile(r"([+-]?(?:[0-9]+\.?[0-9]*|\.[0-9]+))[eE]([+-]?[0-9]{1,4})")
_OPTION = re.compile(r"\(?([a-z])\)?(?:\s*[.:)]\s*(.*)|\s+-\s+(.*))?", re.DOTALL)
_ANOTHER = re.compile(r"(?:or|and|/|,|&)\s*\(?[a-z]\)?\b")
_ARTICLE = re.compile(r"\b(?:a|an|the)\b")
_NO_PUNCTUATION = str.maketrans("", "", string.punctuation)


def clean(text: str) -> str:
    """NFKC with hyphens for minus signs, nothing invisible, and single inner spaces."""
    return " ".join(unicodedata.normalize("NFKC", text).translate(_INVISIBLE).split())


def fold(text: str) -> str:
    """`clean`, without one trailing full stop, case-folded."""
    cleaned = clean(text)
    return (cleaned[:-1].rstrip() or cleaned if cleaned[-1:] == "." else cleaned).casefold()


def decimal(text: str) -> Decimal | None:
    """The value of a plain decimal number such as `-3`, `007` or `.5`; None if it is none."""
    return Decimal(text) if _PLAIN.fullmatch(text) else None


def number(text: str) -> Decimal | None:
    """The value of a number that may be grouped (`1,000`) or have an exponent (`1e3`)."""
    if grouped := _GROUPED.fullmatch(text):
        return Decimal(grouped.group(1).replace(",", "") + (grouped.group(2) or ""))
    return Decimal(text) if _EXPONENT.fullmatch(text) else decimal(text)


def _strict(gold: str, answer: str) -> bool:
    return gold == answer


def _default(gold: str, answer: str) -> bool:
    wanted, given = fold(gold), fold(answer)
    value = decimal(wanted)
    return wanted == given if value is None else value == decimal(given)


def _numeric(gold: str, answer: str) -> bool:
    value = number(clean(gold))
    if value is None:
        raise ValueError(f"gold {gold[:80]!r} is not a number")
    return value == number(clean(answer))


def _squad(gold: str, answer: str) -> bool:
    value = _wrapped_number(gold)
    if value is not None:
        return value == _wrapped_number(answer)
    wanted = _squadded(gold)
    return wanted == _squadded(answer) if wanted else _default(gold, answer)


def _wrapped_number(text: str) -> Decimal | None:
    outer = string.punctuation.translate(str.maketrans("", "", "+-."))
    return number(fold(text).strip(outer))


def _squadded(text: str) -> str:
    return " ".join(_ARTICLE.sub(" ", clean(text).lower().translate(_NO_PUNCTUATION)).split())


def _mcq(gold: str, answer: str) -> bool:
    wanted = _letter(gold)
    if wanted is None:
        raise ValueError(f"gold {gold[:80]!r} is not an option letter")
    return wanted == _letter(answer)


def _letter(text: str) -> str | None:
    option = _OPTION.fullmatch(fold(text))
    if option is None or _ANOTHER.match(option.group(2) or option.group(3) or ""):
        return None
    return option.group(1)


NORMALISERS: Mapping[str, Callable[[str, str], bool]] = MappingProxyType(
    {
        "strict": _strict,
        "default": _default,
        "numeric": _numeric,
        "squad": _squad,
        "mcq": _mcq,
    }
)
"""name -> (gold, answer) -> whether they agree; ValueError for a gold the rule does not fit."""
