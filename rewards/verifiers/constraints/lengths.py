"""How long a response is and into what it falls: words, sentences and paragraphs
(`length_constraints:*`, `paragraphs:*`, `count:counting_composition`).

Words are runs of word characters, as all published figures count them: "don't" is two. Repaired:
a divider stands between white space, so `***bold***` is none; extra blank lines change nothing.
"""

import re
from typing import Self

from pydantic import Field, model_validator

from rewards.verifiers.constraints.check import (
    Count,
    Parameters,
    Phrase,
    Positive,
    Relation,
    Response,
    compare,
    instruction,
)
from rewards.verifiers.constraints.text import runs, sentences, starts_with, unmarked, words
from rewards.verifiers.constraints.upstream import punkt_sentences, regex_sentences, treebank


class Words(Parameters):
    num_words: Count = Field(description="bound of the count")
    relation: Relation = Field(description="how the count stands to the bound")


class Sentences(Parameters):
    num_sentences: Count = Field(description="bound of the count")
    relation: Relation = Field(description="how the count stands to the bound")


class Paragraphs(Parameters):
    num_paragraphs: Count = Field(description="number of parts between dividers")


class FirstWord(Parameters):
    num_paragraphs: Positive = Field(description="number of paragraphs")
    nth_paragraph: Positive = Field(description="the paragraph in question, from 1")
    first_word: Phrase = Field(description="the word that it starts with")

    @model_validator(mode="after")
    def _exists(self) -> Self:
        if self.nth_paragraph > self.num_paragraphs:
            raise ValueError(
                f"nth_paragraph is {self.nth_paragraph} of {self.num_paragraphs} paragraphs"
            )
        return self


class Composition(Parameters):
    n_sent: Positive = Field(description="sentences of each paragraph")
    n_words: Positive = Field(description="words of each sentence")


@instruction("length_constraints:number_words", Words, "use {relation} {num_words} words")
def number_words(response: Response, wanted: Words) -> bool:
    """Nobody gains by signs: `a_b` counts as two words against a limit, and as one to reach it."""
    count = fewest_words if wanted.relation == "at least" else most_words
    return compare(count(response), wanted.relation, wanted.num_words)


@number_words.upstream
def _(response: Response, wanted: Words) -> bool:
    return compare(len(response.runs), wanted.relation, wanted.num_words)


def fewest_words(response: Response) -> int:
    r"""Runs of `\w` as a reader sees them, if they hold more than underscores."""
    return sum(run.strip("_") != "" for run in runs(response.latin))


def most_words(response: Response) -> int:
    """The same, where underscores part words."""
    return len(runs(response.latin.replace("_", " ")))


@instruction(
    "length_constraints:number_sentences", Sentences, "write {relation} {num_sentences} sentences"
)
def number_sentences(response: Response, wanted: Sentences) -> bool:
    return compare(len(response.sentences), wanted.relation, wanted.num_sentences)


@number_sentences.upstream
def _(response: Response, wanted: Sentences) -> bool:
    found = len(punkt_sentences(response.text))
    return compare(found, wanted.relation, wanted.num_sentences)


_DIVIDER = re.compile(r"(?:^|(?<=\s))\*\*\*(?=\s|$)")
_LOOSE_DIVIDER = re.compile(r"(?:^|(?<=\s))\*[^\S\n]?\*[^\S\n]?\*(?=\s|$)")
_PUBLIC_DIVIDER = re.compile(r"\s?\*\*\*\s?")


def _parts(text: str, divider: re.Pattern[str] | str) -> list[str] | None:
    """The stripped parts; blank ones at the ends do not count, one between makes it None."""
    parts = [part.strip() for part in re.split(divider, text)]
    if len(parts) > 1 and not parts[-1]:
        parts.pop()
    if not parts[0]:
        parts.pop(0)
    return parts if all(parts) else None


def _has_parts(text: str, divider: re.Pattern[str] | str, count: int) -> bool:
    parts = _parts(text, divider)
    return parts is not None and len(parts) == count


@instruction(
    "length_constraints:number_paragraphs",
    Paragraphs,
    "write {num_paragraphs} paragraphs divided by ***",
)
def number_paragraphs(response: Response, wanted: Paragraphs) -> bool:
    return _has_parts(response.text, _DIVIDER, wanted.num_paragraphs)


@number_paragraphs.upstream
def _(response: Response, wanted: Paragraphs) -> bool:
    return _has_parts(response.text, _PUBLIC_DIVIDER, wanted.num_paragraphs)


@instruction("paragraphs:paragraphs", Parameters, "write 2 paragraphs divided by ***")
def paragraphs(response: Response, wanted: Parameters) -> bool:
    return _has_parts(response.text, _DIVIDER, 2)


@paragraphs.upstream
def _(response: Response, wanted: Parameters) -> bool:
    return _has_parts(response.text, _PUBLIC_DIVIDER, 2)


@instruction("paragraphs:paragraphs2", Parameters, "write 2 paragraphs with a blank line between")
def paragraphs2(response: Response, wanted: Parameters) -> bool:
    return len(response.paragraphs) == 2


@paragraphs2.upstream
def _(response: Response, wanted: Parameters) -> bool:
    return _has_parts(response.text, "\n\n", 2)


@instruction(
    "length_constraints:nth_paragraph_first_word",
    FirstWord,
    "write {num_paragraphs} paragraphs with blank lines between, and start number {nth_paragraph} "
    "with the word {first_word}",
)
def nth_paragraph_first_word(response: Response, wanted: FirstWord) -> bool:
    if len(response.paragraphs) != wanted.num_paragraphs:
        return False
    paragraph = response.paragraphs[wanted.nth_paragraph - 1]
    return starts_with(unmarked(paragraph), wanted.first_word)


@nth_paragraph_first_word.upstream
def _(response: Response, wanted: FirstWord) -> bool:
    blocks = response.text.split("\n\n")
    if sum(bool(block.strip()) for block in blocks) != wanted.num_paragraphs:
        return False
    tokens = blocks[wanted.nth_paragraph - 1].split()
    if not tokens:
        return False
    opening = tokens[0].lstrip("'").lstrip('"')
    return re.split(r"[.,?!'\"]", opening)[0].lower() == wanted.first_word.lower()


@instruction(
    "count:counting_composition",
    Composition,
    "write 3 paragraphs divided by * * *, each of {n_sent} sentences of {n_words} words each",
)
def counting_composition(response: Response, wanted: Composition) -> bool:
    parts = _parts(response.text, _LOOSE_DIVIDER)
    return parts is not None and len(parts) == 3 and all(_composed(part, wanted) for part in parts)


def _composed(paragraph: str, wanted: Composition) -> bool:
    found = sentences(paragraph)
    lengths = {len(words(sentence)) for sentence in found}
    return len(found) == wanted.n_sent and lengths == {wanted.n_words}


@counting_composition.upstream
def _(response: Response, wanted: Composition) -> bool:
    parts = re.split(_PUBLIC_DIVIDER, response.text)
    found = [regex_sentences(part) for part in parts]
    return (
        len(parts) == 3
        and all(len(part) == wanted.n_sent for part in found)
        and all(len(treebank(sentence)) == wanted.n_words for part in found for sentence in part)
    )
