"""Texts as tokens for comparing: levelled, and word by word.

Case, spacing, punctuation, compatibility forms and what cannot be seen do not tell two texts apart;
signs such as `+` do. A word's tokens do not depend on its neighbours, so a prompt has the same
tokens wherever it stands; and most words were met before.
"""

import re
import sys
import unicodedata
from collections.abc import Sequence
from functools import cache
from hashlib import blake2b
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerBase

_MOST = 1_000_000
"""Words that are remembered; then all are forgotten."""


class Encoder:
    """Encodes texts with the words of `tokenizer`.

    With `whole_words`, one in ASCII is one token, told by a hash.
    """

    def __init__(self, tokenizer: "PreTrainedTokenizerBase", *, whole_words: bool = False) -> None:
        self._tokenizer = tokenizer.backend_tokenizer
        self._whole = whole_words
        self._known: dict[str, list[int]] = {}

    def encode(self, texts: Sequence[str]) -> list[list[int]]:
        """The tokens of each text."""
        split = [_words(text) for text in texts]
        if len(self._known) > _MOST:
            self._known.clear()
        fresh = list(set().union(*split) - self._known.keys())
        if self._whole:
            self._known |= {word: [_hashed(word)] for word in fresh if word.isascii()}
            fresh = [word for word in fresh if not word.isascii()]
        encoded = self._tokenizer.encode_batch_fast(
            [" " + word for word in fresh], add_special_tokens=False
        )
        self._known |= {word: each.ids for word, each in zip(fresh, encoded, strict=True)}
        known = self._known
        return [[token for word in words for token in known[word]] for words in split]

    def pieces(self, texts: Sequence[str]) -> float:
        """Tokens of a word in ASCII, on average over all that occur; 1 if none does."""
        words = [word for text in texts for word in _words(text) if word.isascii()]
        if not words:
            return 1.0
        return sum(map(len, self.encode(words))) / len(words)


def _hashed(word: str) -> int:
    """Beyond the ids of any tokenizer, and the same in every process."""
    return int.from_bytes(blake2b(word.encode(), digest_size=7).digest()) + (1 << 40)


_UNSEEN = re.compile(
    "[\u00ad\u034f\u061c\u180e\u200b-\u200f\u202a-\u202e\u2060-\u2064\ufe00-\ufe0f\ufeff]"
)
"""Soft hyphens, joiners, marks of direction and variation: copies have them, or have lost them."""


def _words(text: str) -> list[str]:
    """The words of `text`; those of nothing but punctuation only where there are no others."""
    plain = text if text.isascii() else unicodedata.normalize("NFKC", _UNSEEN.sub("", text))
    folded = plain.casefold()
    return folded.translate(_punctuation()).split() or folded.split()


@cache
def _punctuation() -> dict[int, str]:
    """Every character of punctuation, to be a space."""
    every = range(sys.maxunicode + 1)
    return {code: " " for code in every if unicodedata.category(chr(code)).startswith("P")}
