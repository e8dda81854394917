"""Licences: only rows all of whose stated licences are allowed stay; unknown means no.

A licence may be stated by the row, by its source and by its dataset. Each that is stated must be
allowed, and one must be.
"""

from collections.abc import Iterator
from typing import Any, Literal

from pydantic import Field, field_validator

from posttrain.data.checks.inputs import Inputs
from posttrain.data.checks.report import Finding, Findings, Outcome
from posttrain.data.checks.report import Parameters as Common
from posttrain.data.checks.rows import Content
from posttrain.data.checks.spdx import identifier, permitted

NEEDS: tuple[str, ...] = ()

Reason = Literal["unstated", "unknown", "not_allowed", "excluded_source"]

_FIELDS = ("licence", "license")


class Parameters(Common):
    """`allow` names licences, `sources` gives the licence of a source (`source` of a row), and
    rows of `exclude_sources` go whatever their licence."""

    remove: tuple[Reason, ...] = ("unstated", "unknown", "not_allowed", "excluded_source")
    allow: frozenset[str] = Field(min_length=1)
    sources: dict[str, str] = Field(default_factory=dict)
    exclude_sources: frozenset[str] = frozenset()

    @field_validator("allow")
    @classmethod
    def _are_known(cls, names: frozenset[str]) -> frozenset[str]:
        if wrong := sorted(name for name in names if identifier(name) is None):
            raise ValueError(f"no SPDX licence: {', '.join(wrong)}; write e.g. CC-BY-4.0")
        return frozenset(found for name in names if (found := identifier(name)))


def run(inputs: Inputs, asked: Parameters) -> Outcome:
    """Judge every row by the licences stated for it."""
    findings = Findings("licences", asked, inputs.names)
    for dataset in inputs.data:
        for row in dataset.rows():
            findings.take(row, judged(row.content, dataset.licence, asked))
    return findings.outcome()


def judged(content: Content, dataset: str | None, asked: Parameters) -> Iterator[Finding]:
    """What speaks against a row of a dataset with licence `dataset`."""
    source = content.get("source")
    if isinstance(source, str) and source in asked.exclude_sources:
        yield Finding("source", "excluded_source", source)
    stated: list[tuple[str, Any]] = [
        (field, content[field]) for field in _FIELDS if content.get(field) is not None
    ]
    if isinstance(source, str) and source in asked.sources:
        stated.append(("source", asked.sources[source]))
    if dataset is not None:
        stated.append(("dataset", dataset))
    if not stated:
        yield Finding("licence", "unstated", f"source {source!r}" if source else "no source either")
    for field, name in stated:
        yield from _against(field, name, asked.allow)


def _against(field: str, stated: Any, allowed: frozenset[str]) -> Iterator[Finding]:
    """Several licences in a list are all in force."""
    for name in stated if isinstance(stated, list) and stated else [stated]:
        if not isinstance(name, str):
            yield Finding(field, "unknown", repr(name)[:80])
            continue
        allow, unknown = permitted(name, allowed)
        if not allow:
            yield Finding(field, "unknown" if unknown else "not_allowed", name[:80])
