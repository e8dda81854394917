"""Normalisers of exact match: each tells whether an answer is the gold one, by published rules.

* strict: equal code points.
* default: if the gold is a plain decimal number, equal value, exactly; else equal after `fold`.
* number (also `numeric`): both are numbers (thousands may be grouped by commas, exponents given);
  equal value.
* text: equal after `fold`, numbers too (`42` is not `42.0`).
* choice (also `mcq`): the one option letter of the answer, alone or followed by the option's text.
* list: items between commas or semicolons, or of a JSON array, in order; each as `default`.
* structured: JSON (RFC 8259) of equal structure: keys in any order, numbers by value, a boolean is
  no number, texts by code points.
* squad: as SQuAD (lower case, no punctuation, no articles), but numbers by value, with the signs
  that make another value (`-5 degrees`, `1.5`, `1/2`, `10:30`, `C++`), and as `default` where
  nothing of the gold would be left.

A gold of which `fold` leaves nothing fits no rule but strict.

`fold`: Unicode NFKC, but for numbered signs (circled, with a stop, fractions), and with `^` and `_`
before what is raised or lowered; U+2212 as hyphen, zero-width characters dropped, white space
folded, one trailing full stop dropped, case folded (so choices and text compare without case).
"""

import json
import re
import string
import unicodedata
from collections.abc import Callable, Mapping
from decimal import Decimal, InvalidOperation
from itertools import groupby
from types import MappingProxyType
from typing import Any

_INVISIBLE = dict.fromkeys(map(ord, "\u200b\u2060\ufeff\u00ad")) | {0x2212: "-"}
_PLAIN = re.compile(r"[+-]?(?:[0-9]+(?:\.[0-9]*)?|\.[0-9]+)")
_GROUPED = re.compile(r"([+-]?[0-9]{1,3}(?:,[0-9]{3})+)(\.[0-9]*)?")
_EXPONENT = re.compile(r"([+-]?(?:[0-9]+(?:\.[0-9]*)?|\.[0-9]+))[eE]([+-]?[0-9]{1,4})")
_OPTION = re.compile(
    r"(?:\((?P<inside>[a-z])\)(?=[\s.:]|$)|(?P<bare>[a-z])(?=\s*[.:)]|\s+-\s|$))"
    r"\s*(?:[.:)]|-\s)?\s*(?P<text>.*)",
    re.DOTALL | re.IGNORECASE,
)
_ANOTHER = re.compile(r"(?:or|and)\b|[/,&+]|\(?[a-z]\)|[a-j]$", re.IGNORECASE)
_SECOND = re.compile(
    r"(?:^|[,;]|\b(?i:or|and|not|but|nor|is))\s*\(?[A-J]\)?(?=\s*$|[,;)]|\.(?!\w)|\s+(?:or|and)\b)"
    r"|(?:^|\s)(?:\([A-Ja-j]\)|[A-Ja-j][.:)])(?=\s|$)"
)
"""Another option in the text of the one chosen."""
_ARTICLE = re.compile(r"\b(?:a|an|the)\b")
_NO_PUNCTUATION = str.maketrans("", "", string.punctuation)
_GROUPING = re.compile(r"(?<![\d,])\d{1,3}(?:,\d{3})+(?![\d,])")
_TELLING = re.compile(
    r"(?<=\d)[.,/:+-](?=\d)|\.(?=\d)|(?<![\w.])-(?=\.?\d)|(?<=[^\W\d])[+#]+(?!\w)|(?<=\w)/(?=\w)"
)
"""Punctuation that makes another value or name."""
_RAISED = {"<super>": "^", "<sub>": "_"}


def clean(text: str) -> str:
    """NFKC with hyphens for minus signs, nothing invisible, and single inner spaces."""
    if not text.isascii():
        text = "".join(_compatible(kind, "".join(signs)) for kind, signs in groupby(text, _kind))
        text = text.translate(_INVISIBLE)
    return " ".join(text.split())


def _kind(sign: str) -> str:
    """`^` for what is raised, `_` for what is lowered, `No` for other numbers, `` for the rest."""
    mark = _RAISED.get(unicodedata.decomposition(sign).partition(" ")[0], "")
    return mark or ("No" if unicodedata.category(sign) == "No" else "")


def _compatible(kind: str, signs: str) -> str:
    if kind == "No":
        return signs
    return kind + unicodedata.normalize("NFKC", signs)


def fold(text: str) -> str:
    """`clean`, without one trailing full stop, case-folded."""
    return _without_stop(clean(text)).casefold()


def _without_stop(cleaned: str) -> str:
    return cleaned[:-1].rstrip() or cleaned if cleaned[-1:] == "." else cleaned


def _folded_gold(gold: str) -> str:
    """`fold` of a gold; ValueError if that leaves nothing."""
    if folded := fold(gold):
        return folded
    raise ValueError("gold is blank")


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
    wanted = _folded_gold(gold)
    if gold == answer:
        return True
    given = fold(answer)
    value = decimal(wanted)
    return wanted == given if value is None else value == decimal(given)


def _number(gold: str, answer: str) -> bool:
    value = number(clean(gold))
    if value is None:
        raise ValueError(f"gold {gold[:80]!r} is not a number")
    return value == number(clean(answer))


def _text(gold: str, answer: str) -> bool:
    return _folded_gold(gold) == fold(answer)


def _choice(gold: str, answer: str) -> bool:
    wanted = _letter(gold)
    if wanted is None:
        raise ValueError(f"gold {gold[:80]!r} is not an option letter")
    return wanted == _letter(answer)


def _letter(text: str) -> str | None:
    option = _OPTION.fullmatch(_without_stop(clean(text)))
    if option is None or _ANOTHER.match(option["text"]) or _SECOND.search(option["text"]):
        return None
    return (option["inside"] or option["bare"]).lower()


def _list(gold: str, answer: str) -> bool:
    wanted, given = _items(gold), _items(answer)
    if wanted is None:
        raise ValueError(f"gold {gold[:80]!r} is not a list")
    if given is None or len(wanted) != len(given):
        return False
    return all(map(_default, wanted, given))


def _items(text: str) -> list[str] | None:
    """The items of a list; None for an empty list or item, or JSON with other than plain items."""
    cleaned = clean(text)
    if cleaned.startswith("["):
        try:
            items = _parsed(cleaned)
        except ValueError:
            return None
        if not isinstance(items, list) or not all(isinstance(i, str | Decimal) for i in items):
            return None
        found = [str(item).strip() for item in items]
    else:
        found = [item.strip() for item in re.split("[,;]", cleaned)]
    return found if found and all(found) else None


def _structured(gold: str, answer: str) -> bool:
    try:
        wanted = _parsed(gold)
    except ValueError:
        raise ValueError(f"gold {gold[:80]!r} is not JSON") from None
    try:
        return _same(wanted, _parsed(answer))
    except ValueError:
        return False


def _parsed(text: str) -> Any:
    """JSON with exact numbers; ValueError for what RFC 8259 does not know, or a key given twice."""
    try:
        return json.loads(
            text,
            parse_int=_exact,
            parse_float=_exact,
            parse_constant=_refused,
            object_pairs_hook=_unique,
        )
    except RecursionError:
        raise ValueError("nested too deeply") from None


def _exact(text: str) -> Decimal:
    try:
        return Decimal(text)
    except InvalidOperation:
        raise ValueError("a number is out of all bounds") from None


def _refused(constant: str) -> Any:
    raise ValueError(f"{constant} is not JSON")


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    content = dict(pairs)
    if len(content) != len(pairs):
        raise ValueError("a key comes twice")
    return content


def _same(one: Any, other: Any) -> bool:
    """Equality of JSON whose numbers are Decimal; unlike Python's, a boolean is no number."""
    if type(one) is not type(other):
        return False
    if isinstance(one, dict):
        return one.keys() == other.keys() and all(_same(one[key], other[key]) for key in one)
    if isinstance(one, list):
        return len(one) == len(other) and all(map(_same, one, other))
    return bool(one == other)


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
    text = _GROUPING.sub(lambda match: match.group().replace(",", ""), clean(text).lower())
    kept, at = [], 0
    for sign in _TELLING.finditer(text):
        kept += [text[at : sign.start()].translate(_NO_PUNCTUATION), sign.group()]
        at = sign.end()
    kept.append(text[at:].translate(_NO_PUNCTUATION))
    return " ".join(_ARTICLE.sub(" ", "".join(kept)).split())


NORMALISERS: Mapping[str, Callable[[str, str], bool]] = MappingProxyType(
    {
        "default": _default,
        "strict": _strict,
        "number": _number,
        "text": _text,
        "choice": _choice,
        "list": _list,
        "structured": _structured,
        "squad": _squad,
        "numeric": _number,
        "mcq": _choice,
    }
)
"""name -> (gold, answer) -> whether they agree; ValueError for a gold the rule does not fit."""
