"""An answer's text as tokens; raises Unreadable for signs that no rule knows."""

import re
from dataclasses import dataclass

from rewards.verifiers.math.words import FUNCTIONS, NAMED_SIGNS

LONGEST = 8_000
"""Most tokens of an answer."""


class Unreadable(Exception):
    """The text is no answer that these rules can read."""


class TooCostly(Exception):
    """Reading or evaluating on would take more than an answer is worth."""


@dataclass(frozen=True)
class Token:
    """`kind` is `number`, `name` (a letter or function), `text`, `sign` or `end`."""

    kind: str
    text: str


_WORDS = {"and": "and", "or": "or", "to": ":"}
_TOKEN = re.compile(
    r"(?P<space>\s+)"
    r"|(?P<number>\d+(?:\.\d+)?|\.\d+)"
    r"|(?P<text>\\text\{[^{}]*\})"
    r"|(?P<environment>\\(?:begin|end)\{[a-zA-Z]+\*?\})"
    r"|(?P<command>\\[a-zA-Z]+)"
    r"|(?P<escape>\\[^a-zA-Z])"
    r"|(?P<word>[A-Za-z]+|[^\W\d_])"
    r"|(?P<sign><=|>=|!=|:=|<|>|[-+*/^_()\[\]{},;:!'|=%&#.])"
)


def tokens(text: str) -> list[Token]:
    """The tokens of spelled `text`, ending with one of kind `end`."""
    found: list[Token] = []
    at = 0
    while at < len(text):
        match = _TOKEN.match(text, at)
        if match is None:
            raise Unreadable(f"sign {text[at]!r}")
        found += _token(match)
        if len(found) > LONGEST:
            raise TooCostly("the answer is too long")
        at = match.end()
    return [*found, Token("end", "")]


def _token(match: re.Match[str]) -> list[Token]:
    kind, text = match.lastgroup, match.group()
    if kind == "space":
        return []
    if kind == "text":
        return [Token("text", text[6:-1].strip())]
    if kind == "command":
        return [_command(text[1:])]
    if kind == "word":
        return _letters(text)
    if kind in ("escape", "environment"):
        return [Token("sign", text)]
    return [Token(kind or "", text)]


def _command(name: str) -> Token:
    if name in NAMED_SIGNS:
        return Token("sign", NAMED_SIGNS[name])
    return Token("name", name)


def _letters(word: str) -> list[Token]:
    """A word as letters, but for a function's name in or before it (`sin`, `2pi`, `xln`)."""
    if word in _WORDS:
        return [Token("sign", _WORDS[word])]
    if word in FUNCTIONS or word in ("pi", "infinity", "inf"):
        return [Token("name", {"infinity": "infty", "inf": "infty"}.get(word, word))]
    return [Token("name", letter) for letter in word]


def without_doubled_brackets(found: list[Token]) -> list[Token]:
    """Of brackets right inside the same kind of brackets, as in `((x))`, only the outer ones."""
    pairs: dict[int, int] = {}
    open_at: list[int] = []
    for at, token in enumerate(found):
        if token.kind == "sign" and token.text in ("(", "{"):
            open_at.append(at)
        elif token.kind == "sign" and token.text in (")", "}") and open_at:
            start = open_at.pop()
            if found[start].text + token.text in ("()", "{}"):
                pairs[start] = at
    doubled: set[int] = set()
    for start, end in pairs.items():
        if pairs.get(start - 1) == end + 1 and found[start - 1].text == found[start].text:
            doubled |= {start, end}
    return [token for at, token in enumerate(found) if at not in doubled]
