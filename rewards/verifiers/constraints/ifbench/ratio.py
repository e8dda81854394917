"""The `ratio:` instructions: shares of words, of sentences by kind, and of shared trigrams."""

from collections.abc import Sequence
from typing import Annotated

from pydantic import Field

from rewards.verifiers.constraints.check import Parameters, Phrase, Response, instruction
from rewards.verifiers.constraints.ifbench import public
from rewards.verifiers.constraints.ifbench.lexicon import STOP_WORDS
from rewards.verifiers.constraints.ifbench.spelling import closing_mark, straight

Percentage = Annotated[float, Field(strict=True, ge=0, le=100)]


class Share(Parameters):
    """A share in per cent."""

    percentage: Percentage


class Overlap(Parameters):
    """A reference text, and the share of the response's trigrams that it has, in per cent."""

    reference_text: Phrase
    percentage: Percentage


@instruction("ratio:stop_words", Share, "let stop words be at most {percentage}% of all words")
def stop_words(response: Response, asked: Share) -> bool:
    """A contraction (don't) is one word, and a stop word if all its parts are."""
    parts = [straight(word).lower().split("'") for word in response.words]
    return _at_most(sum(STOP_WORDS.issuperset(word) for word in parts), len(parts), asked)


@stop_words.upstream
def _stop_runs(response: Response, asked: Share) -> bool:
    found = sum(word.lower() in STOP_WORDS for word in response.runs)
    return _at_most(found, len(response.runs), asked)


def _at_most(count: int, total: int, asked: Share) -> bool:
    return total > 0 and 100 * count / total <= asked.percentage


def _count(sentences: Sequence[str]) -> tuple[int, int, int]:
    """How many sentences end in a full stop, a question mark, an exclamation mark."""
    marks = [closing_mark(sentence) for sentence in sentences]
    return marks.count("."), marks.count("?"), marks.count("!")


def _count_bare(sentences: Sequence[str]) -> tuple[int, int, int]:
    """As `_count`, but what ends in a quote mark or bracket is of no kind."""
    statements, questions, exclamations = (
        sum(sentence.endswith(mark) for sentence in sentences) for mark in ".?!"
    )
    return statements, questions, exclamations


@instruction(
    "ratio:sentence_type", Parameters, "write exactly two statements (.) for each question (?)"
)
def sentence_type(response: Response, _: Parameters) -> bool:
    statements, questions, _exclamations = _count(response.sentences)
    return statements == 2 * questions > 0


@sentence_type.upstream
def _sentence_type(response: Response, _: Parameters) -> bool:
    """None of either passes."""
    statements, questions, _exclamations = _count_bare(public.sentences(response.text))
    return statements == 2 * questions


@instruction(
    "ratio:sentence_balance",
    Parameters,
    "write as many statements (.) as questions (?) and as exclamations (!)",
)
def sentence_balance(response: Response, _: Parameters) -> bool:
    statements, questions, exclamations = _count(response.sentences)
    return statements == questions == exclamations > 0


@sentence_balance.upstream
def _sentence_balance(response: Response, _: Parameters) -> bool:
    """None of any passes."""
    return len(set(_count_bare(public.sentences(response.text)))) == 1


_TOLERANCE = 2  # Percentage points.


@instruction(
    "ratio:overlap",
    Overlap,
    "share {percentage}% (+-2 points) of the three-word sequences with the reference text",
)
def overlap(response: Response, asked: Overlap) -> bool:
    """Of words, whatever their case and punctuation."""
    reference = Response(asked.reference_text)
    return _shares(_words(response), _words(reference), asked.percentage)


@overlap.upstream
def _character_overlap(response: Response, asked: Overlap) -> bool:
    """Of characters."""
    return _shares(response.text, asked.reference_text, asked.percentage)


def _words(response: Response) -> list[str]:
    return [straight(word).casefold() for word in response.words]


def _shares(ours: Sequence[str], theirs: Sequence[str], percentage: float) -> bool:
    trigrams = _trigrams(ours)
    if not trigrams:
        return False
    share = 100 * len(trigrams & _trigrams(theirs)) / len(trigrams)
    return abs(share - percentage) <= _TOLERANCE


def _trigrams(sequence: Sequence[str]) -> set[tuple[str, str, str]]:
    return set(zip(sequence, sequence[1:], sequence[2:], strict=False))


@instruction(
    "ratio:sentence_words",
    Parameters,
    "write three sentences of equal length in characters, with no word used twice",
)
def sentence_words(response: Response, _: Parameters) -> bool:
    words = [straight(word).casefold() for word in response.words]
    equal = len({len(sentence) for sentence in response.sentences}) == 1
    return len(response.sentences) == 3 and equal and len(set(words)) == len(words)


@sentence_words.upstream
def _sentence_lengths(response: Response, _: Parameters) -> bool:
    """Words may repeat."""
    lengths = [len(sentence) for sentence in public.sentences(response.text)]
    return len(lengths) == 3 and len(set(lengths)) == 1
