"""Restoring an order: a document's sections, shuffled and numbered as they stand; in which order
were they written? The document is part of the question, so only the answer is learned.

The seed's document ordering (facts.md 4.4).
Always holds: the sections, put in the order of the answer, are the document to the character.
"""

import random
from collections.abc import Callable, Sequence
from itertools import pairwise
from typing import TYPE_CHECKING

from posttrain.data.longcontext.conversation import Row, conversation
from posttrain.data.longcontext.sources import Document

if TYPE_CHECKING:
    from posttrain.data.chat import ChatFormat

SECTIONS = {"hard": 8, "easy": 4}
SHORTEST = 32
"""Fewest tokens of a section."""

_LABEL = "[Section "
_CHARACTER = 16
"""More tokens than any one character has."""


def _joined(separator: str) -> Callable[[Sequence[int]], str]:
    return lambda order: separator.join(map(str, order))


FORMATS: tuple[tuple[str, Callable[[Sequence[int]], str]], ...] = (
    ("List the numbers with commas and no spaces, such as 2,1,3.", _joined(",")),
    ("Put one space between the numbers and write nothing else.", _joined(" ")),
    (
        "Your whole answer is a JSON array, such as [2,1,3].",
        lambda order: f"[{_joined(',')(order)}]",
    ),
    ("Put an arrow ' -> ' between the numbers; do not explain.", _joined(" -> ")),
    ("Join the numbers with hyphens, such as 2-1-3.", _joined("-")),
    (
        "Put each number in parentheses, without spaces, such as (2)(1)(3).",
        lambda order: "".join(f"({number})" for number in order),
    ),
    ("List the numbers with a comma and a space, such as 2, 1, 3.", _joined(", ")),
    ("Separate the numbers by vertical bars, such as 2|1|3.", _joined("|")),
    ("Write one number on each line and nothing else.", _joined("\n")),
    ("Answer in the form 'Order: 2, 1, 3'.", lambda order: f"Order: {_joined(', ')(order)}"),
)
"""How the answer is to be written, and an order written so."""

ASKED = "The sections above are out of order. Give their numbers in the order they were written in."


def section_orders(chat: "ChatFormat", document: Document, draw: random.Random) -> Row | str:
    """The row of a document.

    `short_sections` if they would have fewer than 32 tokens, `altered_text` if tokens do not give
    it back, `ambiguous` if two sections are equal, one is blank or it has such labels itself.
    """
    count = SECTIONS[document.level]
    if len(document.ids) < count * SHORTEST:
        return "short_sections"
    found = sections(chat, document, count)
    if found is None:
        return "altered_text"
    if len(set(found)) < count or not all(map(str.strip, found)) or _LABEL in document.text:
        return "ambiguous"
    order, shown = shuffled(found, draw)
    wanted, written = draw.choice(FORMATS)
    return conversation([(f"{shown}\n\n{ASKED} {wanted}", written(order))]) | {
        "task": "section_orders"
    }


def shuffled(parts: Sequence[str], draw: random.Random) -> tuple[list[int], str]:
    """The labels in the right order, and the parts under labels numbered from 1 as they stand."""
    places = draw.sample(range(len(parts)), len(parts))
    order = [places.index(number) + 1 for number in range(len(parts))]
    shown = (f"{_LABEL}{label}]\n{parts[number]}" for label, number in enumerate(places, 1))
    return order, "\n\n".join(shown)


def sections(chat: "ChatFormat", document: Document, count: int) -> list[str] | None:
    """The text in `count` parts of equally many tokens, but for those that one character takes.

    None if the tokens of a part do not decode to what stands in the text.
    """
    token, characters = 0, [0]
    for number in range(1, count):
        wanted = number * len(document.ids) // count
        for end in range(wanted, min(wanted + _CHARACTER, len(document.ids))):
            ids = document.ids[token:end]
            part = chat.tokenizer.decode(ids, clean_up_tokenization_spaces=False)
            if document.text.startswith(part, characters[-1]):
                break
        else:
            return None
        token = end
        characters.append(characters[-1] + len(part))
    return [document.text[start:end] for start, end in pairwise([*characters, len(document.text)])]
