"""Keywords: which words a response holds, and how often (`keywords:*` and
`count:count_increment_word`).

Repaired: a keyword is literal text standing as whole words, whatever its case. Upstream: it is a
regular expression found anywhere, inside longer words too.
"""

import re
from typing import Annotated

from pydantic import Field

from rewards.verifiers.constraints.check import (
    Count,
    Parameters,
    Phrase,
    Relation,
    Response,
    compare,
    instruction,
)
from rewards.verifiers.constraints.upstream import findall

Phrases = Annotated[list[Phrase], Field(min_length=1, max_length=200)]


class Keywords(Parameters):
    keywords: Phrases = Field(description="words that must all occur")


class Forbidden(Parameters):
    forbidden_words: Phrases = Field(description="words none of which may occur")


class Keyword(Parameters):
    keyword: Phrase = Field(description="the word that is counted")


class Frequency(Keyword):
    frequency: Count = Field(description="bound of the count")
    relation: Relation = Field(description="how the count stands to the bound")


class Pair(Parameters):
    keyword1: Phrase = Field(description="the word that occurs once")
    keyword2: Phrase = Field(description="the word that occurs twice")


def _hits(pattern: str, text: str) -> int:
    return len(findall(pattern, text, re.IGNORECASE))


@instruction("keywords:existence", Keywords, "use each of these words: {keywords}")
def existence(response: Response, wanted: Keywords) -> bool:
    return all(response.count(keyword) for keyword in wanted.keywords)


@existence.upstream
def _(response: Response, wanted: Keywords) -> bool:
    return all(_hits(keyword, response.text) for keyword in wanted.keywords)


@instruction("keywords:forbidden_words", Forbidden, "use none of these words: {forbidden_words}")
def forbidden_words(response: Response, wanted: Forbidden) -> bool:
    return not any(response.count(word) for word in wanted.forbidden_words)


@forbidden_words.upstream
def _(response: Response, wanted: Forbidden) -> bool:
    return not any(_hits(rf"\b{word}\b", response.text) for word in wanted.forbidden_words)


@instruction("keywords:frequency", Frequency, "use the word {keyword} {relation} {frequency} times")
def frequency(response: Response, wanted: Frequency) -> bool:
    found = response.count(wanted.keyword)
    return compare(found, wanted.relation, wanted.frequency)


@frequency.upstream
def _(response: Response, wanted: Frequency) -> bool:
    found = _hits(wanted.keyword.strip(), response.text)
    return compare(found, wanted.relation, wanted.frequency)


different_numbers = instruction(
    "keywords:word_count_different_numbers",
    Frequency,
    "use the word {keyword} {relation} {frequency} times",
)(frequency.repaired)
different_numbers.upstream(frequency.rule("upstream"))


@instruction("keywords:word_once", Keyword, "use the word {keyword} exactly once")
def word_once(response: Response, wanted: Keyword) -> bool:
    return response.count(wanted.keyword) == 1


@word_once.upstream
def _(response: Response, wanted: Keyword) -> bool:
    return _hits(wanted.keyword.strip(), response.text) == 1


@instruction("keywords:exclude_word_harder", Keyword, "do not use the word {keyword}")
def exclude_word_harder(response: Response, wanted: Keyword) -> bool:
    return not response.count(wanted.keyword)


@exclude_word_harder.upstream
def _(response: Response, wanted: Keyword) -> bool:
    return f" {wanted.keyword.strip()} " not in response.text


@instruction(
    "count:count_increment_word",
    Pair,
    "use the word {keyword1} exactly once and the word {keyword2} exactly twice",
)
def count_increment_word(response: Response, wanted: Pair) -> bool:
    once, twice = (response.count(word) for word in (wanted.keyword1, wanted.keyword2))
    return once == 1 and twice == 2


@count_increment_word.upstream
def _(response: Response, wanted: Pair) -> bool:
    once = _hits(wanted.keyword1.strip(), response.text)
    return once == 1 and _hits(wanted.keyword2.strip(), response.text) == 2
