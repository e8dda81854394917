"""The `words:` instructions: letters, lengths, order and repetition of the words of a response."""

import math
import re
from collections import Counter
from collections.abc import Sequence
from itertools import pairwise

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
from rewards.verifiers.constraints.ifbench.spelling import initial, letters, straight, unaccented
from rewards.verifiers.constraints.ifbench.syllables import listed, parities
from rewards.verifiers.constraints.ifbench.verbs import starts_with_verb
from rewards.verifiers.constraints.upstream import treebank

_ALPHABET = "abcdefghijklmnopqrstuvwxyz"
_CONSONANTS = "bcdfghjklmnpqrstvwxyz"


class Most(Parameters):
    """How often a word may occur."""

    small_n: Count


class Position(Parameters):
    """A word, its sentence `n`, and its place `m` in that sentence, both counted from 1."""

    keyword: Phrase
    n: Positive
    m: Positive


class Keyword(Parameters):
    """A word."""

    keyword: Phrase


@instruction(
    "words:alphabet",
    Parameters,
    "start each word with the letter that follows the last word's in the alphabet, A after Z",
)
def alphabet(response: Response, _: Parameters) -> bool:
    return _loops([initial(word) for word in response.words])


@alphabet.upstream
def _alphabet(response: Response, _: Parameters) -> bool:
    return _loops([word[0].lower() for word in public.words(response.text)])


def _loops(initials: Sequence[str]) -> bool:
    if not initials or not all(letter in _ALPHABET and letter for letter in initials):
        return False
    steps = (ord(after) - ord(before) for before, after in pairwise(initials))
    return all(step % 26 == 1 for step in steps)


@instruction(
    "words:vowel", Parameters, "write one paragraph with at most three of the vowels a, e, i, o, u"
)
def vowel(response: Response, _: Parameters) -> bool:
    plain = Response(unaccented(response.text))
    return bool(response.words) and _three_vowels(plain, Parameters())


def _three_vowels(response: Response, _: Parameters) -> bool:
    paragraph = response.folded.strip()
    return "\n" not in paragraph and len(set("aeiou").intersection(paragraph)) <= 3


vowel.upstream(_three_vowels)

_CLUSTER = re.compile(f"[{_CONSONANTS}]{{2}}")


@instruction("words:consonants", Parameters, "use only words with two or more consonants together")
def consonants(response: Response, _: Parameters) -> bool:
    """A number is a word without any; marks that stand alone are no words."""
    words = [token for token in response.folded.split() if texts.bare(token)]
    return bool(words) and all(_CLUSTER.search(unaccented(word)) for word in words)


@consonants.upstream
def _consonant_tokens(response: Response, _: Parameters) -> bool:
    """No words pass."""
    return all(map(_CLUSTER.search, response.folded.split()))


@instruction(
    "words:palindrome",
    Parameters,
    "use at least 10 palindromic words of at least 5 letters",
)
def palindrome(response: Response, _: Parameters) -> bool:
    """They may repeat; numbers do not count."""
    return _palindromes([word for word in map(letters, response.words) if word.isalpha()]) >= 10


@palindrome.upstream
def _palindrome(response: Response, _: Parameters) -> bool:
    return _palindromes(public.words(response.folded)) >= 10


def _palindromes(words: Sequence[str]) -> int:
    return sum(len(word) >= 5 and word == word[::-1] for word in words)


@instruction("words:prime_lengths", Parameters, "use only words whose length is a prime number")
def prime_lengths(response: Response, _: Parameters) -> bool:
    """Apostrophes and hyphens do not count."""
    lengths = [sum(map(str.isalnum, word)) for word in response.words]
    return bool(lengths) and all(map(_is_prime, lengths))


@prime_lengths.upstream
def _prime_lengths(response: Response, _: Parameters) -> bool:
    """No words pass; its table of primes ends at 97."""
    return all(len(word) < 98 and _is_prime(len(word)) for word in public.words(response.text))


def _is_prime(number: int) -> bool:
    return number > 1 and all(number % divisor for divisor in range(2, math.isqrt(number) + 1))


@instruction("words:start_verb", Parameters, "start with a verb")
def start_verb(response: Response, _: Parameters) -> bool:
    """The public implementation asks a trained tagger; both modes ask the lists of verbs.py."""
    return starts_with_verb(response.text)


@instruction("words:repeats", Most, "use no word more than {small_n} times")
def repeats(response: Response, asked: Most) -> bool:
    words = [straight(word).casefold() for word in response.words]
    return bool(words) and max(Counter(words).values()) <= asked.small_n


@repeats.upstream
def _repeats(response: Response, asked: Most) -> bool:
    """No words pass."""
    return max(Counter(public.words(response.folded)).values(), default=0) <= asked.small_n


@instruction(
    "words:odd_even_syllables",
    Parameters,
    "alternate between words with an odd and words with an even number of syllables",
)
def odd_even_syllables(response: Response, _: Parameters) -> bool:
    """Numbers in digits cannot be counted, and fail."""
    words = [parities(word) for word in response.words]
    return len(words) > 1 and any(
        all((first + place) % 2 in word for place, word in enumerate(words)) for first in (0, 1)
    )


@odd_even_syllables.upstream
def _odd_even_syllables(response: Response, _: Parameters) -> bool:
    """A single word passes; the dictionary is syllapy's."""
    counts = [listed(word) for word in public.words(response.folded)]
    return all((before - after) % 2 for before, after in pairwise(counts))


@instruction(
    "words:last_first", Parameters, "start each sentence with the last word of the sentence before"
)
def last_first(response: Response, _: Parameters) -> bool:
    """One sentence is no chain."""
    found = [_words(sentence) for sentence in response.sentences]
    return len(found) > 1 and all(before[-1] == after[0] for before, after in pairwise(found))


def _words(text: str) -> list[str]:
    return [straight(word).casefold() for word in texts.words(text)]


@last_first.upstream
def _last_first(response: Response, _: Parameters) -> bool:
    """One sentence passes."""
    return all(map(_chained, *_neighbours(public.sentences(response.text))))


def _neighbours(items: Sequence[str]) -> tuple[Sequence[str], Sequence[str]]:
    return items[:-1], items[1:]


def _chained(before: str, after: str) -> bool:
    last, first = public.stripped(before).split()[-1:], public.stripped(after).split()[:1]
    return bool(last) and [word.lower() for word in last] == [word.lower() for word in first]


@instruction(
    "words:paragraph_last_first",
    Parameters,
    "end each paragraph (line) with the word that it starts with",
)
def paragraph_last_first(response: Response, _: Parameters) -> bool:
    lines = [words for line in response.lines if (words := _words(line))]
    return bool(lines) and all(words[0] == words[-1] for words in lines)


@paragraph_last_first.upstream
def _paragraph_last_first(response: Response, _: Parameters) -> bool:
    """Punctuation inside the line counts: "Home, sweet home." fails. No words pass."""
    lines = [public.stripped(line.strip().lower()).split() for line in response.lines]
    return all(words[0] == words[-1] for words in lines if words)


@instruction(
    "words:no_consecutive", Parameters, "start no two neighbouring words with the same letter"
)
def no_consecutive(response: Response, _: Parameters) -> bool:
    """Words of two lines are no neighbours, unless each line is one word."""
    lines = [words for line in response.lines if (words := texts.words(line))]
    if all(len(words) == 1 for words in lines):
        lines = [response.words]
    return bool(response.words) and all(
        _initials_differ(list(map(initial, line))) for line in lines
    )


def _initials_differ(initials: Sequence[str]) -> bool:
    return all(before != after for before, after in pairwise(initials))


@no_consecutive.upstream
def _no_consecutive(response: Response, _: Parameters) -> bool:
    return _initials_differ([word[0] for word in public.words(response.folded)])


@instruction(
    "words:keywords_specific_position", Position, "make {keyword} word {m} of sentence {n}"
)
def keywords_specific_position(response: Response, asked: Position) -> bool:
    found = response.sentences[asked.n - 1 : asked.n]
    places = [_words(sentence)[asked.m - 1 : asked.m] for sentence in found]
    return places == [_words(asked.keyword)] != [[]]


@keywords_specific_position.upstream
def _keyword_token(response: Response, asked: Position) -> bool:
    """Tokens of a contraction count apart."""
    for sentence in public.sentences(response.text)[asked.n - 1 : asked.n]:
        tokens = [token for token in treebank(sentence) if any(map(str.isalnum, token))]
        found = [token.lower() for token in tokens[asked.m - 1 : asked.m]]
        return found == [asked.keyword.strip().lower()]
    return False


@instruction(
    "words:words_position", Keyword, "make both the second and the second-last word {keyword}"
)
def words_position(response: Response, asked: Keyword) -> bool:
    words = _words(response.text)
    return len(words) > 1 and [words[1]] == [words[-2]] == _words(asked.keyword)


@words_position.upstream
def _token_positions(response: Response, asked: Keyword) -> bool:
    """Punctuation marks are tokens; one at the very end is left out."""
    tokens = [token.lower() for token in treebank(response.text)]
    end = -3 if tokens and tokens[-1] in public.MARKS else -2
    last = tokens[end:][:1] if len(tokens) >= -end else []
    return tokens[1:2] == last == [asked.keyword.strip().lower()]
