"""The `count:` instructions: how many words, numbers, names or marks a response holds."""

import re

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
from rewards.verifiers.constraints.ifbench.lexicon import COORDINATORS, NAMES, PRONOUNS
from rewards.verifiers.constraints.ifbench.spelling import straight
from rewards.verifiers.constraints.lengths import fewest_words, most_words
from rewards.verifiers.constraints.upstream import treebank


class Range(Parameters):
    """Bounds of a number of words, both inclusive."""

    min_words: Count
    max_words: Count


class Number(Parameters):
    """How many."""

    N: Count


class Every(Parameters):
    """The period of a pattern in words."""

    N: Positive


class Fewest(Parameters):
    """The least number of something."""

    small_n: Count


class Keywords(Parameters):
    """Words asked for once, twice, 3, 5 and 7 times, in this order."""

    keyword1: Phrase
    keyword2: Phrase
    keyword3: Phrase
    keyword4: Phrase
    keyword5: Phrase


@instruction("count:word_count_range", Range, "write between {min_words} and {max_words} words")
def word_count_range(response: Response, asked: Range) -> bool:
    """As `length_constraints:number_words` counts."""
    return asked.min_words <= fewest_words(response) <= most_words(response) <= asked.max_words


@word_count_range.upstream
def _run_count(response: Response, asked: Range) -> bool:
    return asked.min_words <= len(response.runs) <= asked.max_words


@instruction("count:unique_word_count", Number, "use at least {N} different words")
def unique_word_count(response: Response, asked: Number) -> bool:
    return len({word.casefold() for word in response.words}) >= asked.N


@unique_word_count.upstream
def _unique_tokens(response: Response, asked: Number) -> bool:
    """Marks that stand alone make one more word, the empty one."""
    return len({public.stripped(token) for token in response.folded.split()}) >= asked.N


@instruction(
    "count:conjunctions",
    Fewest,
    "use at least {small_n} different coordinating conjunctions (and, but, for, nor, or, so, yet)",
)
def conjunctions(response: Response, asked: Fewest) -> bool:
    return len({word.lower() for word in response.words} & COORDINATORS) >= asked.small_n


@conjunctions.upstream
def _conjunction_tokens(response: Response, asked: Fewest) -> bool:
    """Tokens differ by case and punctuation: And, and, "and," are three."""
    found = {token for token in response.tokens if public.stripped(token).lower() in COORDINATORS}
    return len(found) >= asked.small_n


_NAME = re.compile(rf"\b(?:{'|'.join(sorted(NAMES))})\b")


@instruction("count:person_names", Number, "mention at least {N} different names of the list")
def person_names(response: Response, asked: Number) -> bool:
    return len(set(_NAME.findall(response.text))) >= asked.N


# A decimal point, a thousands comma, a colon or a slash between digits makes no second number.
_NUMBER = re.compile(r"\d+(?:[.:/]\d+|,\d{3}(?!\d))*")


@instruction("count:numbers", Number, "include exactly {N} numbers (in digits)")
def numbers(response: Response, asked: Number) -> bool:
    return len(_NUMBER.findall(response.text)) == asked.N


@numbers.upstream
def _digit_runs(response: Response, asked: Number) -> bool:
    """Punctuation goes first: 10-12 is one number."""
    return len(re.findall(r"\d+", public.without_punctuation(response.text))) == asked.N


_INTERROBANG = re.compile(r"\?!|!\?")
_MARKS = frozenset(".,!?;:")


@instruction(
    "count:punctuation",
    Parameters,
    "use each of . , ! ? ; : at least once, and besides them an interrobang (?!)",
)
def punctuation(response: Response, _: Parameters) -> bool:
    text = response.text
    if "‽" not in text:
        text, found = _INTERROBANG.subn("", text, count=1)
        return bool(found) and set(text) >= _MARKS
    return set(text) >= _MARKS


@punctuation.upstream
def _punctuation_cover(response: Response, _: Parameters) -> bool:
    """The first ?!, else the first !?, does not count among the single marks."""
    text = response.text
    if not any(mark in text for mark in ("?!", "!?", "‽")):
        return False
    mark = "?!" if "?!" in text else "!?"
    return set(text.replace(mark, "", 1)) >= _MARKS


_JAPANESE = re.compile(r"[\u3005\u3041-\u30fa\u30fc-\u30ff\u3400-\u4dbf\u4e00-\u9fff\uff66-\uff9f]")


@instruction("count:words_japanese", Every, "make every {N}th word a Japanese one")
def words_japanese(response: Response, asked: Every) -> bool:
    """At least one such word; a number in its place is excused."""
    words = [word for token in response.tokens if (word := texts.bare(token))]
    due = [word for word in words[asked.N - 1 :: asked.N] if not word.isdigit()]
    return bool(due) and all(_JAPANESE.search(word) for word in due)


@words_japanese.upstream
def _tokens_japanese(response: Response, asked: Every) -> bool:
    """Too short a text passes; marks that stand alone count as words."""
    due = [public.stripped(token) for token in response.tokens[asked.N - 1 :: asked.N]]
    kana_or_kanji = re.compile(r"[\u3040-\u30ff\u4e00-\u9fff]")
    return all(not word or word.isdigit() or kana_or_kanji.search(word) for word in due)


_PRONOUN_TOKEN = re.compile(r"[^\W\d_]+(?:'[^\W\d_]+)?")


@instruction("count:pronouns", Number, "include at least {N} pronouns")
def pronouns(response: Response, asked: Number) -> bool:
    """Also in contractions (it's) and sets (she/her); the US is no pronoun."""
    tokens = _PRONOUN_TOKEN.findall(straight(response.text))
    shouted = response.text.isupper()
    found = [
        token for token in tokens
        if token.split("'")[0].lower() in PRONOUNS and (token != "US" or shouted)
    ]  # fmt: skip
    return len(found) >= asked.N


@pronouns.upstream
def _pronoun_tokens(response: Response, asked: Number) -> bool:
    tokens = treebank(response.folded.replace("/", " "))
    return sum(token in PRONOUNS for token in tokens) >= asked.N


_TIMES = (1, 2, 3, 5, 7)


@instruction(
    "count:keywords_multiple",
    Keywords,
    "use {keyword1} once, {keyword2} twice, {keyword3} 3 times, {keyword4} 5 times and "
    "{keyword5} 7 times",
)
def keywords_multiple(response: Response, asked: Keywords) -> bool:
    counts = [response.count(keyword) for _, keyword in asked]
    return counts == list(_TIMES)


@keywords_multiple.upstream
def _keyword_substrings(response: Response, asked: Keywords) -> bool:
    """Keywords inside longer words count."""
    found = [response.folded.count(keyword.strip().lower()) for _, keyword in asked]
    return found == list(_TIMES)
