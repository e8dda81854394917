"""Letters and their case: counts of letters, of capital and lower-case words (`letters:*`,
`change_case:*`, `keywords:letter_frequency`, `count:lowercase_counting`), and the language.

Repaired: letters of every script count, contractions and hyphenated words are one word, and text
without a detectable language is in none. Upstream takes such text for the asked language.
"""

import re
from typing import Annotated

from pydantic import AfterValidator, Field

from rewards.verifiers.constraints.appearance import plain
from rewards.verifiers.constraints.check import (
    Count,
    Parameters,
    Relation,
    Response,
    compare,
    instruction,
)
from rewards.verifiers.constraints.language import CODES, is_english, is_in, langdetected
from rewards.verifiers.constraints.text import bare
from rewards.verifiers.constraints.upstream import treebank


def _known(code: str) -> str:
    if code not in CODES:
        raise ValueError(f"no language {code!r}; known are {' '.join(sorted(CODES))}")
    return code


class Language(Parameters):
    language: Annotated[str, AfterValidator(_known)] = Field(description="code such as de, zh-cn")


class Letter(Parameters):
    letter: str = Field(min_length=1, max_length=1, description="the character that is counted")
    let_frequency: Count = Field(description="bound of the count")
    let_relation: Relation = Field(description="how the count stands to the bound")


class Letters(Parameters):
    N: Count = Field(description="bound of the count")
    relation: Relation = Field(description="how the count stands to the bound")


class Capitals(Parameters):
    capital_frequency: Count = Field(description="bound of the count")
    capital_relation: Relation = Field(description="how the count stands to the bound")


class AtMost(Parameters):
    N: Count = Field(description="most lower-case words")


@instruction("language:response_language", Language, "write all of it in the language {language}")
def response_language(response: Response, wanted: Language) -> bool:
    return is_in(response.text, wanted.language)


@response_language.upstream
def _(response: Response, wanted: Language) -> bool:
    return langdetected(response.text) in (None, wanted.language)


@instruction("change_case:english_capital", Parameters, "write English in capital letters only")
def english_capital(response: Response, wanted: Parameters) -> bool:
    return response.text.isupper() and is_english(response.text)


@english_capital.upstream
def _(response: Response, wanted: Parameters) -> bool:
    return response.text.isupper() and langdetected(response.text) in (None, "en")


@instruction("change_case:english_lowercase", Parameters, "write English in lower case only")
def english_lowercase(response: Response, wanted: Parameters) -> bool:
    return response.text.islower() and is_english(response.text)


@english_lowercase.upstream
def _(response: Response, wanted: Parameters) -> bool:
    return response.text.islower() and langdetected(response.text) in (None, "en")


@instruction(
    "keywords:letter_frequency",
    Letter,
    "use the letter {letter} {let_relation} {let_frequency} times",
)
def letter_frequency(response: Response, wanted: Letter) -> bool:
    """A letter counts in any of its forms, and where one of another script passes for it."""
    texts = [response.plain, response.latin] if wanted.letter.isalnum() else [response.text]
    letter = plain(wanted.letter).lower() if wanted.letter.isalnum() else wanted.letter
    found = max(text.lower().count(letter) for text in texts)
    return compare(found, wanted.let_relation, wanted.let_frequency)


@letter_frequency.upstream
def _(response: Response, wanted: Letter) -> bool:
    found = response.folded.count(wanted.letter.lower())
    return compare(found, wanted.let_relation, wanted.let_frequency)


letter_counting2 = instruction(
    "letters:letter_counting2",
    Letter,
    "use the letter {letter} {let_relation} {let_frequency} times",
)(letter_frequency.repaired)
letter_counting2.upstream(letter_frequency.rule("upstream"))


@instruction("letters:letter_counting", Letters, "use {relation} {N} letters in all")
def letter_counting(response: Response, wanted: Letters) -> bool:
    return compare(sum(map(str.isalpha, response.plain)), wanted.relation, wanted.N)


@letter_counting.upstream
def _(response: Response, wanted: Letters) -> bool:
    letters = re.findall(r"[a-zA-Z]", response.text)
    return compare(len(letters), wanted.relation, wanted.N)


_BETWEEN = re.compile(r"[\s\u2012-\u2015/]+|--+")


def _is_capital(token: str) -> bool:
    """Two letters at least, all capital: "I" and "A" are ordinary words, "4B" is no word."""
    return token.isupper() and sum(map(str.isalpha, token)) > 1


@instruction(
    "change_case:capital_word_frequency",
    Capitals,
    "write {capital_relation} {capital_frequency} words in capital letters",
)
def capital_word_frequency(response: Response, wanted: Capitals) -> bool:
    found = sum(_is_capital(bare(token)) for token in _BETWEEN.split(response.plain))
    return compare(found, wanted.capital_relation, wanted.capital_frequency)


@capital_word_frequency.upstream
def _(response: Response, wanted: Capitals) -> bool:
    found = sum(map(str.isupper, treebank(response.text)))
    return compare(found, wanted.capital_relation, wanted.capital_frequency)


@instruction("count:lowercase_counting", AtMost, "use at most {N} lower-case words")
def lowercase_counting(response: Response, wanted: AtMost) -> bool:
    return sum(map(str.islower, response.words)) <= wanted.N


@lowercase_counting.upstream
def _(response: Response, wanted: AtMost) -> bool:
    return len(re.findall(r"\b[a-z]+\b", response.text)) <= wanted.N
