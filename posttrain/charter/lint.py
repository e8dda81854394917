"""What is wrong with a charter: everything that would make a judge, or its reader, go astray."""

from collections import Counter
from collections.abc import Callable, Iterator

from posttrain.charter.document import Charter

BYTES_PER_TOKEN = 3
"""For want of a tokenizer: fewer than in any language's usual text, so that lengths err upwards."""


def faults(
    charter: Charter, judge_context: int, room: int, count: Callable[[str], int] | None = None
) -> list[str]:
    """One line for each fault; none for a charter that may be used.

    `judge_context` is the judge's context in tokens, of which `room` is for template, prompt,
    response and reply. `count` counts a text's tokens; without it they are estimated.
    """
    return [*articles(charter), *_length(charter, judge_context - room, count)]


def articles(charter: Charter) -> list[str]:
    """What is wrong with the articles, whoever reads them."""
    return [*_missing(charter), *_twice(charter)]


def _missing(charter: Charter) -> Iterator[str]:
    if not charter.articles:
        yield "there is no article; begin one with `## ID. Title`"
    for article in charter.articles:
        if not article.text:
            yield f"article {article.id} says nothing"
    numbers = [int(article.id) for article in charter.articles if article.id.isdecimal()]
    if numbers != sorted(numbers):
        yield "the articles' numbers are out of order"


def _twice(charter: Charter) -> Iterator[str]:
    for what in ("id", "title", "text"):
        counts = Counter(getattr(article, what).casefold() for article in charter.articles)
        for value, times in counts.items():
            if value and times > 1:
                yield f"{times} articles have the {what} {value[:60]!r}"


def _length(charter: Charter, most: int, count: Callable[[str], int] | None) -> Iterator[str]:
    size = len(charter.text.encode())
    tokens = count(charter.text) if count else -(-size // BYTES_PER_TOKEN)
    if tokens > most:
        told = "" if count else " by estimate"
        yield f"it has {tokens} tokens{told}; the judge's context leaves {most} for it"
