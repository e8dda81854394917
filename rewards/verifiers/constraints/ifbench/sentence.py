"""The `sentence:` instructions: what each sentence holds, and how one follows from the last."""

import re
from collections.abc import Sequence
from itertools import groupby, pairwise

from rewards.verifiers.constraints import text as texts
from rewards.verifiers.constraints.check import (
    Count,
    Parameters,
    Phrase,
    Positive,
    Response,
    instruction,
)
from rewards.verifiers.constraints.ifbench import public
from rewards.verifiers.constraints.ifbench.spelling import initial


class Keyword(Parameters):
    """A word, and the sentence it belongs in, counted from 1."""

    word: Phrase
    N: Positive


class Increment(Parameters):
    """By how many words each sentence is longer than the last."""

    small_n: Count


def _grow(numbers: Sequence[int]) -> bool:
    return all(before < after for before, after in pairwise(numbers))


@instruction(
    "sentence:alliteration_increment",
    Parameters,
    "give each sentence a longer run of neighbouring words with the same first letter than the "
    "sentence before",
)
def alliteration_increment(response: Response, _: Parameters) -> bool:
    """Longest runs count; one sentence is no progression."""
    runs = [_longest_run(sentence) for sentence in response.sentences]
    return len(runs) > 1 and _grow(runs)


def _longest_run(sentence: str) -> int:
    initials = map(initial, texts.words(sentence))
    return max((len(list(run)) for _, run in groupby(initials)), default=0)


@alliteration_increment.upstream
def _alliteration_sums(response: Response, _: Parameters) -> bool:
    """All alliterating words of a sentence count together."""
    return _grow([_alliterating(sentence) for sentence in public.sentences(response.text)])


def _alliterating(sentence: str) -> int:
    words = [public.left_stripped(token) for token in sentence.lower().split()]
    runs = [len(list(run)) for _, run in groupby(word[0] for word in words if word)]
    return sum(length for length in runs if length > 1)


@instruction("sentence:keyword", Keyword, "use {word} in sentence {N}")
def keyword(response: Response, asked: Keyword) -> bool:
    found = response.sentences[asked.N - 1 : asked.N]
    return any(Response(sentence).count(asked.word) for sentence in found)


@keyword.upstream
def _keyword(response: Response, asked: Keyword) -> bool:
    pattern = rf"\b{re.escape(asked.word)}\b"
    found = public.sentences(response.text)[asked.N - 1 : asked.N]
    return any(re.search(pattern, sentence, re.IGNORECASE) for sentence in found)


@instruction(
    "sentence:increment",
    Increment,
    "make each sentence exactly {small_n} words longer than the one before",
)
def increment(response: Response, asked: Increment) -> bool:
    """One sentence is no progression."""
    lengths = [len(texts.words(sentence)) for sentence in response.sentences]
    return len(lengths) > 1 and _rise(lengths, asked.small_n)


@increment.upstream
def _increment(response: Response, asked: Increment) -> bool:
    """One sentence passes; a text without any raises there, and fails here."""
    found = [public.words(sentence) for sentence in public.sentences(response.text)]
    return bool(found) and _rise([len(words) for words in found], asked.small_n)


def _rise(lengths: Sequence[int], step: int) -> bool:
    return all(after - before == step for before, after in pairwise(lengths))
