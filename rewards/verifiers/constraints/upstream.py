r"""Sentences and tokens as the public implementations find them, for `upstream` rules only.

`regex_sentences` decides as the regular-expression splitter of IFEvalG does, `treebank` as NLTK's
word tokeniser; both are checked against the originals by generated texts. `punkt_sentences` comes
near NLTK's trained sentence splitter without its data.
"""

import re

from rewards.verifiers.constraints import text as texts
from rewards.verifiers.constraints.check import Refused


def findall(pattern: str, text: str, flags: int = 0) -> list[str]:
    """Matches of a parameter read as a regular expression; Refused where it is none."""
    try:
        return [found.group() for found in re.finditer(pattern, text, flags)]
    except re.error as fault:
        raise Refused(
            f"no regular expression, as upstream reads {pattern[:80]!r}: {fault}"
        ) from None


_KEPT = "\x00"  # A dot that ends nothing.
_END = "\x01"
_STARTER = (
    r"((?:Mr|Mrs|Ms|Dr|Prof|Capt|Cpt|Lt|He\s|She\s|It\s|They\s|Their\s|Our\s|We\s|But\s|However\s"
    r"|That\s|This\s|Wherever))"
)


def _rules(*rules: tuple[str, str]) -> list[tuple[re.Pattern[str], str]]:
    return [(re.compile(rule), result) for rule, result in rules]


_BEFORE_DOTS = _rules(
    (r"(Mr|St|Mrs|Ms|Dr)\.", rf"\1{_KEPT}"),
    (r"\.(com|net|org|io|gov|edu|me)", rf"{_KEPT}\1"),
    (r"([0-9])\.([0-9])", rf"\1{_KEPT}\2"),
)
_AFTER_DOTS = _rules(
    (r"Ph\.D\.", f"Ph{_KEPT}D{_KEPT}"),
    (r"\s([A-Za-z])\. ", rf" \1{_KEPT} "),
    (rf"([A-Z]\.[A-Z]\.(?:[A-Z]\.)?) {_STARTER}", rf"\1{_END} \2"),
    (r"([A-Za-z])\.([A-Za-z])\.([A-Za-z])\.", rf"\1{_KEPT}\2{_KEPT}\3{_KEPT}"),
    (r"([A-Za-z])\.([A-Za-z])\.", rf"\1{_KEPT}\2{_KEPT}"),
    (rf" (Inc|Ltd|Jr|Sr|Co)\. {_STARTER}", rf" \1{_END} \2"),
    (r" (Inc|Ltd|Jr|Sr|Co)\.", rf" \1{_KEPT}"),
    (r" ([A-Za-z])\.", rf" \1{_KEPT}"),
)
_INSIDE = [(".”", "”."), ('."', '".'), ('!"', '"!'), ('?"', '"?')]


def regex_sentences(text: str) -> list[str]:
    """Stripped sentences; one is empty where stops follow each other."""
    text = f" {text}  ".replace(_KEPT, "").replace(_END, "").replace("\n", " ")
    for rule, result in _BEFORE_DOTS:
        text = rule.sub(result, text)
    text = re.sub(r"\.{2,}", lambda dots: _KEPT * len(dots.group()) + _END, text)
    for rule, result in _AFTER_DOTS:
        text = rule.sub(result, text)
    for inside, outside in _INSIDE:
        text = text.replace(inside, outside)
    text = re.sub(r"([.?!])", rf"\1{_END}", text).replace(_KEPT, ".")
    found = [piece.strip() for piece in text.split(_END)]
    return found if found[-1] else found[:-1]


_STOP = re.compile(r"(?<![.!?])([.!?]+)[\"')\]}]*(?=\s+[\"'(\[{]*(\w*)|$)")
_INITIAL = re.compile(r"(?<![\w.'’])[a-hj-z]$", re.IGNORECASE)
_NUMBER = re.compile(r"(?<![\w.])\d+$")
_ABBREVIATION = re.compile(
    r"(?<![\w.])(?:(?!e\.g$|i\.e$)(?:[a-z]\.)+[a-z]|mrs?|ms|dr|prof|messrs|rev|gen|sen|reps?|st|"
    r"ave|inc|corp|cos?|ltd|bros|jr|vs|cie|jan|feb|aug|sept?|oct|nov|dec|tues?|wed|fri|ph\.d)$",
    re.IGNORECASE,
)


def punkt_sentences(text: str) -> list[str]:
    """Close to NLTK's trained splitter: lines and list marks mean nothing, ? and ! always end."""
    found: list[str] = []
    start = 0
    for stop in _STOP.finditer(text):
        if _ends(text[max(start, stop.start() - 20) : stop.start()], *stop.groups("")):
            found.append(text[start : stop.end()].strip())
            start = stop.end()
    return [*found, text[start:].strip()] if text[start:].strip() else found


def _ends(before: str, stops: str, word: str) -> bool:
    """Whether `stops` between `before` and the word after it end a sentence."""
    if set(stops) != {"."} or not word:
        return True
    if len(stops) == 1 and not _ABBREVIATION.search(before):
        return not (_INITIAL.search(before) or (word[0].islower() and _NUMBER.search(before)))
    return word[0].isupper() and word.lower() in texts.STARTERS


_SIGN = r"[«“‘„»”’\"]|``|`|''|\.{2,}|--|[;@#$%&?!*\[\](){}<>\u2012-\u2015]|[,:](?=\D|$)"
_QUOTE = rf"(?<!\w)'(?!(?:re|ve|ll|m|t|s|d|n)\b)(?=\w)|'(?=\s|$|{_SIGN})"
_MARK = rf"{_SIGN}|{_QUOTE}"
_CLITIC = r"n't\b|'(?:s|m|d|ll|re|ve)\b"
_PIECE = re.compile(
    rf"(?P<mark>{_MARK})|(?:(?!{_MARK}|(?<=\w)(?:{_CLITIC}))\S)+|(?P<clitic>{_CLITIC})",
    re.IGNORECASE,
)
_FINAL_DOT = re.compile(r"(?<!\.)\.(?=[\])}>\"'»”’ ]*$)")
_JOINED = re.compile(
    r"(can)(not)|(gim|lem)(me)|(gon|wan)(na)|(got)(ta)|('t)(is|was)|(d)('ye)", re.I
)


def treebank(text: str) -> list[str]:
    """Tokens: punctuation marks stand alone, contractions are split ("do", "n't").

    An opening double quote is two grave accents and a closing one two apostrophes.
    """
    tokens: list[str] = []
    for sentence in punkt_sentences(text):
        parted = _FINAL_DOT.sub(" .", sentence)
        for piece in _PIECE.finditer(parted):
            token = piece.group()
            if token in ('"', "''"):
                opens = piece.start() == 0 or parted[piece.start() - 1] in " ([{<"
                token = "``" if opens else "''"
            joined = _JOINED.fullmatch(token)
            tokens += [part for part in joined.groups() if part] if joined else [token]
    return tokens
