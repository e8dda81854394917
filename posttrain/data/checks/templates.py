"""Repeated templates and prompt fragments: long word n-grams that many rows share.

A model learns what is said again and again: boilerplate, a stock opening, pieces of a prompt that
found their way into answers. Memory is fixed, whatever the data: grams are counted in sketches,
so a count may be a little too high, never too low.
"""

from collections import Counter
from collections.abc import Iterator, Sequence
from itertools import islice
from typing import Literal, NamedTuple
from zlib import crc32

import numpy as np
from numpy.typing import NDArray
from pydantic import Field

from posttrain.data.checks.grams import Grams, Hashes, Ints, Tokens, grams
from posttrain.data.checks.inputs import Inputs
from posttrain.data.checks.report import Finding, Findings, Outcome
from posttrain.data.checks.report import Parameters as Common
from posttrain.data.checks.rows import Dataset, Row, Text, texts
from posttrain.data.checks.sketch import Sketch
from posttrain.quantities import Share

NEEDS: tuple[str, ...] = ()

Reason = Literal["template", "opening", "prompt_fragment"]
Flags = NDArray[np.bool_]

_BATCH = 512
"""Rows that are counted at once."""

_LISTED = 50
_REMEMBERED = 10_000
"""Fragments that are listed, and kept meanwhile."""


class Parameters(Common):
    """A gram of `words` words is a template if at least `rows` rows and `share` of the dataset's
    rows have it; so is an answer's opening of `opening` words."""

    remove: tuple[Reason, ...] = ()
    refuse: tuple[Reason, ...] = ()
    words: int = Field(default=12, ge=4)
    opening: int = Field(default=6, ge=2)
    rows: int = Field(default=20, ge=2)
    share: Share = 0.01


def run(inputs: Inputs, asked: Parameters) -> Outcome:
    """Read each dataset twice: to count, and to say which rows have what is frequent."""
    findings = Findings("templates", asked, inputs.names)
    fragments = _Fragments()
    for dataset in inputs.data:
        counts = _Counts(dataset, asked)
        for batch in _batches(dataset, asked):
            found = counts.found(batch, fragments)
            for number, row in enumerate(batch.rows):
                findings.take(row, found.get(number, ()))
    return findings.outcome(listing=fragments.listing())


class _Batch(NamedTuple):
    """Rows with their texts, and word grams of these: of answers, of prompts, of the system's and
    developer's part of prompts, and the first of each answer.

    Windows carry the number of their text; `row_of` leads from there to the row.
    """

    rows: Sequence[Row]
    texts: Sequence[Text]
    row_of: Ints
    starts: Ints
    answers: Grams
    prompts: Grams
    standing: Grams
    openings: Grams

    def once(self, windows: Grams) -> Hashes:
        """The hashes of `windows`, each once a row."""
        _, first = np.unique(self.by_row(windows), return_index=True)
        return windows.hashes[first]

    def by_row(self, windows: Grams) -> Hashes:
        """Hashes that are equal where gram and row are."""
        rows = self.row_of[windows.owners].astype(np.uint64)
        return windows.hashes + (rows + np.uint64(1)) * np.uint64(0x9E3779B97F4A7C15)

    def words(self, text: int, position: int, count: int) -> str:
        """The `count` words of a text from the one at `position` (over all texts) on."""
        start = position - int(self.starts[text])
        return b" ".join(_split(self.texts[text].text)[start : start + count]).decode()


def _batches(dataset: Dataset, asked: Parameters) -> Iterator[_Batch]:
    remaining = dataset.rows()
    while rows := list(islice(remaining, _BATCH)):
        found = [(n, text) for n, row in enumerate(rows) for text in texts(row.content)]
        tokens = Tokens.of([[crc32(word) for word in _split(text.text)] for _, text in found])
        speakers = np.array([text.speaker for _, text in found], dtype="U12")
        answers = np.isin(speakers, ("assistant", "document"))
        standing = np.isin(speakers, ("system", "developer"))
        windows, openings = grams(tokens, asked.words), grams(tokens, asked.opening)
        first = openings.positions == tokens.starts[openings.owners]
        yield _Batch(
            rows, [text for _, text in found], np.array([n for n, _ in found], dtype=np.int64),
            tokens.starts,
            answers=_chosen(windows, answers[windows.owners]),
            prompts=_chosen(windows, ~answers[windows.owners]),
            standing=_chosen(windows, standing[windows.owners]),
            openings=_chosen(openings, first & answers[openings.owners]),
        )  # fmt: skip


def _split(text: str) -> list[bytes]:
    return text.casefold().encode().split()


def _chosen(windows: Grams, which: Flags) -> Grams:
    return Grams(windows.hashes[which], windows.owners[which], windows.positions[which])


class _Counts:
    """How many rows of a dataset have each gram of answers, of prompts, and each opening."""

    def __init__(self, dataset: Dataset, asked: Parameters) -> None:
        self._asked = asked
        self._answers, self._prompts, self._openings = Sketch(), Sketch(), Sketch()
        rows = 0
        for batch in _batches(dataset, asked):
            rows += len(batch.rows)
            self._answers.add(batch.once(batch.answers))
            self._prompts.add(batch.once(batch.prompts))
            self._openings.add(batch.once(batch.openings))
        self._least = max(asked.rows, asked.share * rows)

    def found(self, batch: _Batch, fragments: "_Fragments") -> dict[int, list[Finding]]:
        """By number of row in `batch` what is frequent in it."""
        words, opening = self._asked.words, self._asked.opening
        own = np.isin(batch.by_row(batch.answers), batch.by_row(batch.standing))
        found: dict[int, list[Finding]] = {}
        for run in (
            *self._runs("template", batch.answers, self._answers, words),
            *self._runs("template", batch.prompts, self._prompts, words),
            *self._runs("opening", batch.openings, self._openings, opening),
            *self._runs("prompt_fragment", batch.answers, self._prompts, words, besides=own),
        ):
            text = batch.texts[run.text]
            said = batch.words(run.text, run.position, run.words)
            fragments.add(run.reason, text.speaker, said)
            often = f"in {run.rows:,} rows" if run.rows >= self._least else "of its own prompt"
            finding = Finding(text.field, run.reason, f"{often}: {said[:120]}")
            found.setdefault(int(batch.row_of[run.text]), []).append(finding)
        return found

    def _runs(
        self,
        reason: Reason,
        windows: Grams,
        sketch: Sketch,
        size: int,
        besides: Flags | None = None,
    ) -> Iterator["_Run"]:
        """Runs of windows, one after the other in a text, that are frequent or in `besides`."""
        counts = sketch.counts(windows.hashes)
        chosen = counts >= self._least
        hits = np.flatnonzero(chosen if besides is None else chosen | besides)
        texts, positions = windows.owners[hits], windows.positions[hits]
        breaks = (np.diff(positions, prepend=-2) != 1) | (np.diff(texts, prepend=-1) != 0)
        for run in np.split(np.arange(len(hits)), np.flatnonzero(breaks)[1:]):
            if len(run):
                rows = int(counts[hits[run]].min())
                text, position = int(texts[run[0]]), int(positions[run[0]])
                yield _Run(reason, text, position, len(run) + size - 1, rows)


class _Run(NamedTuple):
    """`words` words from `position` on, whose grams are in at least `rows` rows."""

    reason: Reason
    text: int
    position: int
    words: int
    rows: int


class _Fragments:
    """The most frequent fragments, each as long as it is in its texts."""

    def __init__(self) -> None:
        self._counts: Counter[tuple[str, str, str]] = Counter()

    def add(self, reason: str, speaker: str, words: str) -> None:
        """Count a fragment; of too many the rare ones are forgotten."""
        self._counts[reason, speaker, words[:400]] += 1
        if len(self._counts) > _REMEMBERED:
            self._counts = Counter(dict(self._counts.most_common(_REMEMBERED // 2)))

    def listing(self) -> list[str]:
        """A line for each of the most frequent."""
        return [
            f"{count:,} times, {reason}, {speaker}: {words}"
            for (reason, speaker, words), count in self._counts.most_common(_LISTED)
        ]
