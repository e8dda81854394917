"""Duplicates: conversations that occur again, to the letter or but for case and spacing, and ids.

The first of several equal rows stays. One id on rows of different content is no duplicate but a
mistake: what refers to it would hit them all, so it refuses the data.
"""

import unicodedata
from collections.abc import Hashable, Iterator
from hashlib import blake2b
from typing import Literal

from posttrain import digest
from posttrain.data.checks.inputs import Inputs
from posttrain.data.checks.report import Finding, Findings, Outcome
from posttrain.data.checks.report import Parameters as Common
from posttrain.data.checks.rows import Content, Place, Row, mapped

NEEDS: tuple[str, ...] = ()

Reason = Literal["exact", "normalised", "duplicate_id"]

_ASIDE = frozenset({"id", "source", "licence", "license"})
"""Fields that say where a row is from, not what it is."""


class Parameters(Common):
    """`exact` rows are equal in all but id and origin; `normalised` ones but for
    case and spacing too."""

    remove: tuple[Reason, ...] = ("exact", "normalised")
    refuse: tuple[Reason, ...] = ("duplicate_id",)


def run(inputs: Inputs, asked: Parameters) -> Outcome:
    """Compare every row with all before it, over all datasets; some 600 bytes a row are kept."""
    findings = Findings("duplicates", asked, inputs.names)
    seen = _Seen()
    without_id = 0
    for row in inputs.rows():
        without_id += row.id is None
        findings.take(row, seen.compared(row))
    return findings.outcome({"rows.without_id": float(without_id)})


class _Seen:
    """Where each content, normalised content and id was first."""

    def __init__(self) -> None:
        self._first: dict[Hashable, Place] = {}

    def compared(self, row: Row) -> Iterator[Finding]:
        """How `row` repeats an earlier one; it is remembered."""
        content = {key: value for key, value in row.content.items() if key not in _ASIDE}
        exact = self._before(("exact", _digest(content)), row.place)
        levelled = self._before(("normalised", _digest(mapped(content, _levelled))), row.place)
        named = self._before(("id", row.place.dataset, row.id), row.place) if row.id else None
        if exact:
            yield Finding("", "exact", f"as {exact}")
        elif levelled:
            yield Finding("", "normalised", f"as {levelled}")
        if named and not exact:
            yield Finding("id", "duplicate_id", f"{row.id!r} is also the id of {named}")

    def _before(self, key: Hashable, place: Place) -> Place | None:
        first = self._first.setdefault(key, place)
        return None if first is place else first


def _digest(content: Content) -> bytes:
    return blake2b(digest.canonical(content).encode(), digest_size=16).digest()


def _levelled(text: str) -> str:
    """`text` but for case and spacing; signs stay, since `2+3` is not `2-3`."""
    return " ".join(unicodedata.normalize("NFC", text).casefold().split())
