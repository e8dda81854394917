"""Which benchmark prompt a text repeats: the rule of decontamination (facts.md 6.1).

A text and a prompt that share a gram of 8 tokens are compared by Ratcliff and Obershelp's
matching blocks; blocks of at least 5 tokens count, and the text is contaminated if they cover half
of the prompt. A prompt shorter than 8 tokens is a gram as a whole, and one shorter than 5, where
no block can count, is found only as a whole text.
"""

from collections.abc import Iterator, Sequence
from difflib import SequenceMatcher
from typing import NamedTuple

import numpy as np

from posttrain.data.checks.grams import Hashes, Ints, Table, Tokens, grams

GRAM, BLOCK, COVERED = 8, 5, 0.5

_REMEMBERED = 10_000
"""Sets of shared grams whose prompts are remembered."""


class Match(NamedTuple):
    """`prompt` is covered to `share` by a text."""

    prompt: int
    share: float


def covered(text: Sequence[int], prompt: Sequence[int]) -> int:
    """Tokens of `prompt` in its matching blocks of at least 5 with `text`, by Ratcliff-Obershelp.

    Equal to summing difflib's `get_matching_blocks` with `autojunk` off, but done once a longest
    match is too short to count, since none within its range is longer.
    """
    matcher = SequenceMatcher(None, text, prompt, autojunk=False)
    total, ranges = 0, [(0, len(text), 0, len(prompt))]
    while ranges:
        text_start, text_end, start, end = ranges.pop()
        if min(text_end - text_start, end - start) < BLOCK:
            continue
        block = matcher.find_longest_match(text_start, text_end, start, end)
        if block.size >= BLOCK:
            total += block.size
            ranges.append((text_start, block.a, start, block.b))
            ranges.append((block.a + block.size, text_end, block.b + block.size, end))
    return total


class _Shared(NamedTuple):
    """Grams of a text that are in `table`."""

    table: Table
    hashes: Hashes


class Prompts:
    """Benchmark prompts as tokens, ready to be looked for; none may be empty."""

    def __init__(self, prompts: Sequence[Sequence[int]]) -> None:
        assert all(prompts), "an empty prompt is contained in every text"
        self._prompts = prompts
        self._whole = {
            tuple(prompt): index for index, prompt in enumerate(prompts) if len(prompt) < BLOCK
        }
        self._tables = {size: self._table(size) for size in self._sizes()}
        self._tokens = Tokens.of(prompts)
        self._blocks = Table(grams(self._tokens, BLOCK))
        self._remembered: dict[bytes, Ints] = {}

    def _sizes(self) -> list[int]:
        return sorted({min(len(prompt), GRAM) for prompt in self._prompts if len(prompt) >= BLOCK})

    def _table(self, size: int) -> Table:
        """The grams of the prompts that are found by grams of `size`."""
        taken = [prompt if min(len(prompt), GRAM) == size else () for prompt in self._prompts]
        return Table(grams(Tokens.of(taken), size))

    def matches(self, texts: Sequence[Sequence[int]]) -> Iterator[tuple[int, Match]]:
        """For each contaminated text its index and one prompt that it repeats, in order."""
        found = {i: Match(self._whole[tuple(t)], 1.0) for i, t in enumerate(texts)
                 if len(t) < BLOCK and tuple(t) in self._whole}  # fmt: skip
        for index, shared in self._sharing(Tokens.of(texts)).items():
            if match := self._best(texts[index], shared):
                found[index] = match
        yield from sorted(found.items())

    def _sharing(self, tokens: Tokens) -> dict[int, list[_Shared]]:
        """For each text that shares grams with prompts, these grams."""
        sharing: dict[int, list[_Shared]] = {}
        for size, table in self._tables.items():
            windows = grams(tokens, size)
            known = table.known(windows.hashes)
            owners = windows.owners[known]
            for part in np.split(known, np.flatnonzero(np.diff(owners)) + 1):
                if len(part):
                    shared = _Shared(table, windows.hashes[part])
                    sharing.setdefault(int(windows.owners[part[0]]), []).append(shared)
        return sharing

    def _best(self, text: Sequence[int], shared: Sequence[_Shared]) -> Match | None:
        """The first prompt that `text` repeats, the most likely ones tried first."""
        likely = self._likely(text)
        if not len(likely):
            return None
        owners = np.concatenate([table.owners[table.entries(hashes)] for table, hashes in shared])
        for prompt in likely[np.isin(likely, owners)].tolist():
            share = covered(text, self._prompts[prompt]) / len(self._prompts[prompt])
            if share >= COVERED:
                return Match(prompt, share)
        return None

    def _likely(self, text: Sequence[int]) -> Ints:
        """Prompts at least half of which lies in 5-grams that `text` has too, the most so first.

        Matching blocks cannot cover more. It spares the comparison with the many prompts that
        share but a common phrase, and is worked out once for each set of shared grams.
        """
        windows = grams(Tokens.of([text]), BLOCK)
        hashes = np.unique(windows.hashes[self._blocks.known(windows.hashes)])
        key = hashes.tobytes()
        if key not in self._remembered:
            if len(self._remembered) >= _REMEMBERED:
                self._remembered.clear()
            self._remembered[key] = self._bounded(hashes)
        return self._remembered[key]

    def _bounded(self, hashes: Hashes) -> Ints:
        positions = np.sort(self._blocks.positions[self._blocks.entries(hashes)], kind="stable")
        if not len(positions):
            return positions
        owners = np.searchsorted(self._tokens.starts, positions, "right") - 1
        fresh = np.minimum(np.diff(positions, append=len(self._tokens.ids) + BLOCK), BLOCK)
        first = np.flatnonzero(np.diff(owners, prepend=-1))
        prompts = owners[first]
        shares = np.add.reduceat(fresh, first) / np.diff(self._tokens.starts)[prompts]
        order = np.argsort(-shares, kind="stable")
        found: Ints = prompts[order][shares[order] >= COVERED]
        return found
