"""Where `\\boxed{...}` stands in a text. Linear in its length."""

import re
from dataclasses import dataclass

_OPENING = re.compile(r"\\{1,2}(?:boxed|fbox)\s*\{")
_MARK = re.compile(r"\\{1,2}(?:boxed|fbox)\s*\{|\\.|[{}]", re.DOTALL)
_FILL = r"(?:[\s$&~]|\\[()\[\]]|\\q?quad(?![a-z])|\\[,;:! ]|\\text\s*\{\s*\}|\\\\)*"
_JOINT = r"(?:,\s*and|,\s*or|[,;]|and(?![a-z])|or(?![a-z])|\\text\s*\{[\s,]*(?:and|or)\s*\})"
_NAME = r"(?:\\?[A-Za-z]+(?:_\{?\w+\}?)?\s*=\s*)?"
_BETWEEN = re.compile(rf"{_FILL}{_JOINT}{_FILL}{_NAME}{_FILL}")
_LONGEST_JOINT = 80


@dataclass(frozen=True)
class Box:
    """A closed box: `text[start:end]` is all of it, `content` what it holds."""

    start: int
    end: int
    content: str


def boxed(text: str) -> str | None:
    """The content of the last closed box of `text` that is not blank; None if there is none.

    Boxes that one sentence lists (`\\boxed{1} and \\boxed{2}`) are joined; equal ones count once.
    """
    found = [box for box in boxes(text) if box.content.strip()]
    if not found:
        return None
    contents = [found[-1].content]
    for left, right in zip(reversed(found[:-1]), reversed(found), strict=False):
        if not _listed(text, left, right):
            break
        contents.append(left.content)
    return ", ".join(dict.fromkeys(content.strip() for content in reversed(contents)))


def opens_box(text: str) -> bool:
    """Whether a box begins in `text`, closed or not: one cut off holds no answer."""
    return _OPENING.search(text) is not None


def _listed(text: str, left: Box, right: Box) -> bool:
    apart = right.start - left.end
    if apart > _LONGEST_JOINT:
        return False
    return not apart or _BETWEEN.fullmatch(text, left.end, right.start) is not None


def boxes(text: str) -> list[Box]:
    """Every closed box, but for those that hold one themselves."""
    found: list[Box] = []
    open_braces: list[tuple[int, int] | None] = []
    for mark in _MARK.finditer(text):
        sign = mark.group()
        if sign == "{":
            open_braces.append(None)
        elif sign != "}":
            if len(sign) > 2:
                open_braces.append((mark.start(), mark.end()))
        elif open_braces and (box := open_braces.pop()) is not None:
            start, inside = box
            if not found or found[-1].start < start:
                found.append(Box(start, mark.end(), text[inside : mark.start()]))
    return found
