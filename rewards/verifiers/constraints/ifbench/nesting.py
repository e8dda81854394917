"""How deep brackets and quotations are nested, counting only levels that are opened and closed."""

import re
from collections.abc import Iterator

from rewards.verifiers.constraints.ifbench.spelling import straight

_CLOSING = {")": "(", "]": "[", "}": "{"}


def bracket_depth(text: str) -> int:
    """Levels of the deepest properly closed nest of round, square and curly brackets.

    A closing bracket without its opening one breaks every nest that is open there.
    """
    deepest = 0
    open_: list[tuple[str, int]] = []  # Bracket, and the depth of the deepest nest closed in it.
    for mark in text:
        if mark in "([{":
            open_.append((mark, 0))
        elif mark in _CLOSING and open_:
            opened, inside = open_.pop()
            if opened != _CLOSING[mark]:
                open_.clear()
                continue
            deepest = max(deepest, inside + 1)
            if open_:
                outer, before = open_[-1]
                open_[-1] = (outer, max(before, inside + 1))
    return deepest


_QUOTE = re.compile(r"[\"']")


def quote_depth(text: str) -> int:
    """Levels of the deepest closed nest of quotations in alternating double and single marks.

    Apostrophes are no marks: neither those between letters nor those that nothing closes.
    """
    deepest = 0
    open_: list[tuple[str, int]] = []
    for mark, closes, opens in _marks(straight(text)):
        level = next((i for i, (opened, _) in enumerate(reversed(open_), 1) if opened == mark), 0)
        if level == 1 and (closes or not opens):
            inside = open_.pop()[1] + 1
        elif level == 2 and closes and not opens and mark == '"':
            open_.pop()  # It was an apostrophe.
            inside = open_.pop()[1] + 1
        elif opens and level != 1:
            open_.append((mark, 0))
            continue
        else:
            continue
        deepest = max(deepest, inside)
        if open_:
            outer, before = open_[-1]
            open_[-1] = (outer, max(before, inside))
    return deepest


def _marks(text: str) -> Iterator[tuple[str, bool, bool]]:
    """Quote marks: which, whether it may close and whether it may open a quotation."""
    for found in _QUOTE.finditer(text):
        before = text[max(0, found.start() - 1) : found.start()]
        after = text[found.end() : found.end() + 1]
        mark = found.group()
        if mark == "'" and before.isalnum() and after.isalnum():
            continue
        yield mark, bool(before) and not before.isspace(), bool(after) and not after.isspace()
