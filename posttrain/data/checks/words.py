"""Texts as tokens for comparing: levelled, and word by word.

Case, spacing and compatibility forms do not tell two texts apart. A word's tokens do not depend on
its neighbours, so a prompt has the same tokens wherever it stands; and most words were met before.
"""

import unicodedata
from collections.abc import Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerBase

_MOST = 1_000_000
"""Words that are remembered; then all are forgotten."""


class Encoder:
    """Encodes texts with the words of `tokenizer`."""

    def __init__(self, tokenizer: "PreTrainedTokenizerBase") -> None:
        self._tokenizer = tokenizer.backend_tokenizer
        self._known: dict[str, list[int]] = {}

    def encode(self, texts: Sequence[str]) -> list[list[int]]:
        """The tokens of each text."""
        split = [_levelled(text).split() for text in texts]
        if len(self._known) > _MOST:
            self._known.clear()
        fresh = list(set().union(*split) - self._known.keys())
        encoded = self._tokenizer.encode_batch_fast(
            [" " + word for word in fresh], add_special_tokens=False
        )
        self._known |= {word: each.ids for word, each in zip(fresh, encoded, strict=True)}
        known = self._known
        return [[token for word in words for token in known[word]] for words in split]


def _levelled(text: str) -> str:
    plain = text if text.isascii() else unicodedata.normalize("NFKC", text)
    return plain.casefold()
