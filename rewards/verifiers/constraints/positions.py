"""Words at places: first and last ones, ends, neighbours (`first_word:*`, `last_word:*`,
`startend:*`, `keywords:*` about places, `count:count_unique`).

Repaired: punctuation round a word and its case are not part of it.
"""

import re
from itertools import pairwise
from typing import Annotated

from pydantic import BeforeValidator, Field

from rewards.verifiers.constraints.check import (
    Parameters,
    Phrase,
    Positive,
    Response,
    instruction,
)
from rewards.verifiers.constraints.text import (
    bare,
    ends_with,
    fold,
    same_word,
    starts_with,
    whole_word,
    words,
)
from rewards.verifiers.constraints.upstream import regex_sentences, treebank


def _only(value: object) -> object:
    return value[0] if isinstance(value, list) and len(value) == 1 else value


Word = Annotated[Phrase, BeforeValidator(_only)]
"""One word; public data sets put some into a list of one."""


class First(Parameters):
    first_word: Word = Field(description="the word at the start")


class Last(Parameters):
    last_word: Word = Field(description="the word at the end")


class Ending(Parameters):
    end_phrase: Phrase = Field(description="the phrase at the end")


class Place(Parameters):
    keyword: Word = Field(description="the word at that place")
    n: Positive = Field(description="number of the sentence, from 1")
    m: Positive = Field(description="number of the word in it, from 1")


@instruction("first_word:first_word_sent", First, "start each sentence with the word {first_word}")
def first_word_sent(response: Response, wanted: First) -> bool:
    found = response.sentences
    return bool(found) and all(starts_with(sentence, wanted.first_word) for sentence in found)


@first_word_sent.upstream
def _(response: Response, wanted: First) -> bool:
    word = wanted.first_word.strip().lower()
    return all(
        sentence and sentence.split()[0].lower() == word
        for sentence in regex_sentences(response.text)
    )


@instruction("first_word:first_word_answer", First, "start with the word {first_word}")
def first_word_answer(response: Response, wanted: First) -> bool:
    return starts_with(response.text, wanted.first_word)


@first_word_answer.upstream
def _(response: Response, wanted: First) -> bool:
    return response.tokens[0].lower() == wanted.first_word.strip().lower()


def _unpunctuated(token: str) -> str:
    return re.sub(r"[^\w\s]", "", token).lower()


@instruction("last_word:last_word_sent", Last, "end each sentence with the word {last_word}")
def last_word_sent(response: Response, wanted: Last) -> bool:
    found = response.sentences
    return bool(found) and all(ends_with(sentence, wanted.last_word) for sentence in found)


@last_word_sent.upstream
def _(response: Response, wanted: Last) -> bool:
    word = wanted.last_word.strip().lower()
    return all(
        sentence and _unpunctuated(sentence.split()[-1]) == word
        for sentence in regex_sentences(response.text)
    )


@instruction("last_word:last_word_answer", Last, "end with the word {last_word}")
def last_word_answer(response: Response, wanted: Last) -> bool:
    return ends_with(response.text, wanted.last_word)


@last_word_answer.upstream
def _(response: Response, wanted: Last) -> bool:
    return _unpunctuated(response.tokens[-1]) == wanted.last_word.strip().lower()


@instruction("keywords:start_end", Parameters, "start and end with the same word and no mark after")
def start_end(response: Response, wanted: Parameters) -> bool:
    found = response.words
    closed = response.text.rstrip().endswith(found[-1]) if found else False
    return closed and len(found) > 1 and same_word(found[0], found[-1])


@start_end.upstream
def _(response: Response, wanted: Parameters) -> bool:
    tokens = treebank(response.text)
    return len(tokens) > 1 and tokens[0].lower() == tokens[-1].lower()


@instruction("startend:end_checker", Ending, "end with this phrase exactly: {end_phrase}")
def end_checker(response: Response, wanted: Ending) -> bool:
    """White space, closing quotes and emphasis may follow; it starts at a word's start."""
    text = response.text.rstrip(" \t\r\n\"'”’*_")
    phrase = wanted.end_phrase.rstrip(" \t\r\n\"'”’*_") or wanted.end_phrase.strip()
    return any(found.end() == len(text) for found in whole_word(phrase).finditer(text))


@end_checker.upstream
def _(response: Response, wanted: Ending) -> bool:
    text = response.text.strip().strip('"').lower()
    return text.endswith(wanted.end_phrase.strip().lower())


_BEFORE = " \n\t([{*_‘'“"  # And nothing.
_QUOTES = {'"': '"', "“": "”", "„": "“”", "«": "»", "”": "”"}


@instruction("startend:quotation", Parameters, "wrap all of it in double quotation marks")
def quotation(response: Response, wanted: Parameters) -> bool:
    """One quotation, with others only inside it: "One" and "two" are not wrapped."""
    text = response.text.strip()
    if len(text) < 3 or text[-1] not in _QUOTES.get(text[0], "") or not text[1:-1].strip():
        return False
    return not _closes(text[1:-1], text[0], _QUOTES[text[0]])


def _closes(inner: str, opening: str, closings: str) -> bool:
    """Whether the quotation that `opening` began ends in `inner`.

    A mark that both opens and closes does the latter after anything but space and brackets; inside
    a word, or escaped, it is none.
    """
    depth = 1
    for mark in re.finditer(f"[{opening}{closings}]", inner):
        sign, at = mark.group(), mark.start()
        before, after = inner[max(0, at - 1) : at], inner[at + 1 : at + 2]
        if before == "\\" or (sign == opening and before.isalnum() and after.isalnum()):
            continue
        opens = sign == opening and (sign not in closings or before in _BEFORE)
        depth += 1 if opens else -1
        if not depth:
            return True
    return False


@quotation.upstream
def _(response: Response, wanted: Parameters) -> bool:
    text = response.text.strip()
    return len(text) > 1 and text[0] == text[-1] == '"'


@instruction(
    "keywords:keyword_specific_position",
    Place,
    "make {keyword} the word number {m} of sentence number {n}",
)
def keyword_specific_position(response: Response, wanted: Place) -> bool:
    if len(response.sentences) < wanted.n:
        return False
    found = words(response.sentences[wanted.n - 1])
    return len(found) >= wanted.m and same_word(found[wanted.m - 1], bare(wanted.keyword))


@keyword_specific_position.upstream
def _(response: Response, wanted: Place) -> bool:
    found = regex_sentences(response.text)
    if len(found) < wanted.n:
        return False
    tokens = treebank(found[wanted.n - 1])
    return len(tokens) >= wanted.m and tokens[wanted.m - 1] == wanted.keyword.strip()


@instruction(
    "keywords:no_adjacent_consecutive",
    Parameters,
    "let no word start with the letter that follows the initial of the word before it",
)
def no_adjacent_consecutive(response: Response, wanted: Parameters) -> bool:
    initials = [word[0].lower() for word in map(bare, response.tokens) if word]
    return not _has_step(initials)


@no_adjacent_consecutive.upstream
def _(response: Response, wanted: Parameters) -> bool:
    initials = [token[0].lower() for token in response.tokens]
    single = len(initials) < 2 or all(len(initial) == 1 for initial in initials)
    return single and not _has_step(initials, letters_only=False)


def _has_step(initials: list[str], *, letters_only: bool = True) -> bool:
    return any(
        ord(after) - ord(before) == 1 and (not letters_only or before.isalpha())
        for before, after in pairwise(initials)
    )


@instruction("count:count_unique", Parameters, "use no word twice")
def count_unique(response: Response, wanted: Parameters) -> bool:
    found = [fold(word) for word in response.words]
    return bool(found) and len(set(found)) == len(found)


@count_unique.upstream
def _(response: Response, wanted: Parameters) -> bool:
    tokens = treebank(response.text)
    return len(set(tokens)) == len(tokens)


@instruction("keywords:palindrome", Parameters, "use a palindrome such as level")
def palindrome(response: Response, wanted: Parameters) -> bool:
    """A word, or a whole sentence, of three letters at least."""
    candidates = [*response.words, *response.sentences]
    return any(map(_reads_backwards, candidates))


def _reads_backwards(text: str) -> bool:
    letters = [letter for letter in text.casefold() if letter.isalpha()]
    return len(letters) > 2 and letters == letters[::-1]


@palindrome.upstream
def _(response: Response, wanted: Parameters) -> bool:
    return any(token == token[::-1] for token in response.tokens)
