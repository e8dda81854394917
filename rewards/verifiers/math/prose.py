"""The answer of a text without a box: what it announces, else what it says last in mathematics."""

import re

_CUE = re.compile(
    r"####\s*|答案?\s*[是为]?\s*[:：]?"
    r"|(?i:\banswer\b)[*_\s]*(?:(?i:is|equals)(?![a-z])|[:=：])[*_\s]*(?i:that(?![a-z])\s*)?[:：]?"
)
_MATH = re.compile(
    r"\$\$(.{1,400}?)\$\$|\$([^$]{1,400})\$|\\\((.{1,400}?)\\\)|\\\[(.{1,400}?)\\\]", re.DOTALL
)
_BOLD = re.compile(r"\*\*([^*\n]+)\*\*")
_FRACTION = r"-?\\d?frac\{[^{}]*\}\{[^{}]*\}"
_DECIMAL = r"[-+−]?(?:\d{1,3}(?:[, ]\d{3})+(?:\.\d+)?|\d+(?:[.,]\d+)?|\.\d+)(?:\s*/\s*\d+)?"
_NUMBER = re.compile(rf"{_FRACTION}|(?<![\w.,]){_DECIMAL}(?:\s*\\?%|(?![\d,/]))")
_STOP = re.compile(r"\.\s+[A-Z]|\.\s*$|[\n。]|<\||\s*I hope")
_SENTENCE = re.compile(r"(?<=[.!?。])\s+|(?<![\[($])\n(?!\s*(?:\\[\])]|\$))")
_DENIED = re.compile(r"(?i:not(?![a-z])|n['’]t(?![a-z]))")
_WORDS = re.compile(r"(?<![\\A-Za-z])[A-Za-z]{3,}")
_TAIL = 8_000
"""Characters at the end of a text in which its answer is sought."""
_BARE = 200
"""Longest text that may be nothing but its answer."""


def announced(text: str) -> str | None:
    """The answer that unboxed `text` gives; None if it gives none."""
    text = text[-_TAIL:].strip()
    if (cue := _last(_CUE, text)) is not None:
        return _stated(text[cue.end() :])
    if text and len(text) <= _BARE and _bare(text):
        return text
    for sentence in reversed(_SENTENCE.split(text)):
        for pattern in (_MATH, _BOLD, _NUMBER):
            if (found := _last(pattern, sentence)) is not None:
                return _content(found)
    displayed = _last(_MATH, text)
    return None if displayed is None else _content(displayed)


def _last(pattern: re.Pattern[str], text: str) -> re.Match[str] | None:
    found = None
    for match in pattern.finditer(text):
        found = match
    return found


def _content(match: re.Match[str]) -> str:
    return next((group for group in match.groups() if group is not None), match.group()).strip()


def _bare(text: str) -> bool:
    """Whether `text` holds no prose, only mathematics."""
    return "\n" not in text and _MATH.search(text) is None and _WORDS.search(text) is None


def _stated(text: str) -> str | None:
    """What follows a cue: all of its sentence if that is mathematics or one word, else the last."""
    text = text.strip()
    if _DENIED.match(text):
        return None
    if (display := _MATH.match(text)) is not None and "\n" in display.group():
        return _content(display)
    stop = _STOP.search(text)
    text = (text if stop is None else text[: stop.start()]).strip().rstrip(".")
    if not text or _bare(text):
        return text or None
    found = [match for pattern in (_MATH, _BOLD, _NUMBER) if (match := _last(pattern, text))]
    if found:
        return _content(max(found, key=lambda match: (match.end(), -match.start())))
    return text
