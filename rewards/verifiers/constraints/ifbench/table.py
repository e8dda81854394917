"""Delimited text as rows of cells that know whether they were quoted."""

import re
from dataclasses import dataclass


@dataclass(frozen=True)
class Cell:
    """A cell's content, without the quotation marks that enclosed it if it was `quoted`."""

    content: str
    quoted: bool


def rows(text: str, delimiter: str) -> list[list[Cell]] | None:
    """The rows of `text`, without blank lines at its end; None if a quotation mark is misplaced.

    Spaces round a cell are not part of it. A quoted cell may hold delimiters and line ends.
    """
    content = rf'"(?P<quoted>(?:[^"]|"")*+)" *+|(?P<bare>[^"{delimiter}\r\n]*+)'
    cell = re.compile(rf" *+(?:{content})(?P<end>{delimiter}|\r?\n|$)")
    text = text.strip("\r\n ")
    found: list[list[Cell]] = [[]]
    place = 0
    while True:
        match = cell.match(text, place)
        if match is None:
            return None
        quoted = match["quoted"]
        content = match["bare"] if quoted is None else quoted.replace('""', '"')
        found[-1].append(Cell(content.strip(" "), quoted is not None))
        place = match.end()
        if match["end"] != delimiter:
            if place >= len(text):
                return found
            found.append([])
