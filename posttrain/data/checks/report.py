"""What a check found: a report to read, and the rows to remove.

Always holds: every row is counted once in its dataset, and once for each reason found in it; rows
are removed by place, never by id; an outcome with refusals may not be used.
"""

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import NamedTuple

from pydantic import BaseModel, ConfigDict, Field

from posttrain.data.checks.rows import Content, Fault, Place, Row
from posttrain.quantities import Share


class Parameters(BaseModel):
    """What may be said of every check.

    Rows with a reason of `remove` are left out. A row with a reason of `refuse` that stays makes
    the outcome unusable, and so does removing more than `most_removed` of a dataset, or than the
    share that `waivers` names for it.
    """

    model_config = ConfigDict(extra="forbid", frozen=True)

    remove: tuple[str, ...] = ()
    refuse: tuple[str, ...] = ()
    most_removed: Share = 1.0
    waivers: dict[str, Share] = Field(default_factory=dict)
    examples: int = Field(default=5, ge=0)


class Finding(NamedTuple):
    """One thing found in a row; `reason` is of the check's closed set."""

    field: str
    reason: str
    detail: str = ""


class Example(BaseModel):
    """A finding with its place; `id` as the row states it."""

    dataset: str
    file: str
    row: int
    id: str | None
    field: str
    reason: str
    detail: str


class Tally(BaseModel):
    """Rows of one dataset: all, removed, and with each reason."""

    rows: int = 0
    removed: int = 0
    reasons: Counter[str] = Field(default_factory=Counter)


class Report(BaseModel):
    """What a check says; `examples` are the first of each dataset and reason.

    `listing` is what only some checks have to tell, a line each, the weightiest first.
    """

    check: str
    datasets: dict[str, Tally]
    figures: dict[str, float]
    examples: list[Example]
    refusals: list[str]
    listing: list[str]

    @property
    def rows(self) -> int:
        """All rows that were checked."""
        return sum(tally.rows for tally in self.datasets.values())

    @property
    def removed(self) -> int:
        """All rows to remove."""
        return sum(tally.removed for tally in self.datasets.values())

    @property
    def reasons(self) -> Counter[str]:
        """Rows with each reason, over all datasets."""
        return sum((tally.reasons for tally in self.datasets.values()), Counter())


@dataclass(frozen=True)
class Outcome:
    """A report, the places of the rows to remove, and how to rewrite those that stay."""

    report: Report
    removed: frozenset[Place]
    rewrite: Callable[[Content], Content] | None = None

    def require(self) -> None:
        """ValueError if the data may not be used; write the report first."""
        if self.report.refusals:
            raise ValueError(f"{self.report.check}: {'; '.join(self.report.refusals)}")

    def kept(self, rows: Iterable[Row]) -> Iterator[Row]:
        """The rows that stay, rewritten where the check does that."""
        for row in rows:
            if row.place not in self.removed:
                yield Row(row.place, self.rewrite(row.content)) if self.rewrite else row


class Findings:
    """Takes one row after the other with what was found in it, and makes the outcome."""

    def __init__(self, check: str, parameters: Parameters, datasets: Iterable[str]) -> None:
        self._check = check
        self._asked = parameters
        self._tallies = {name: Tally() for name in datasets}
        self._shown: Counter[tuple[str, str]] = Counter()
        self._examples: list[Example] = []
        self._removed: set[Place] = set()
        self._refused: dict[str, tuple[int, str]] = {}

    def take(self, row: Row | Fault, found: Iterable[Finding]) -> None:
        """Count a row with its findings."""
        tally = self._tallies[row.place.dataset]
        tally.rows += 1
        # One finding a reason: a row counts once, however often it offends.
        first: dict[str, Finding] = {}
        for finding in found:
            first.setdefault(finding.reason, finding)
        if not first:
            return
        tally.reasons.update(first.keys())
        if not first.keys().isdisjoint(self._asked.remove):
            tally.removed += 1
            self._removed.add(row.place)
        else:
            self._refuse(row.place, first)
        for finding in first.values():
            self._show(row, finding)

    def outcome(
        self,
        figures: Mapping[str, float] | None = None,
        refusals: Iterable[str] = (),
        rewrite: Callable[[Content], Content] | None = None,
        listing: Iterable[str] = (),
    ) -> Outcome:
        """The outcome, with the check's own figures and refusals."""
        refused = [
            f"{count:,} {'row' if count == 1 else 'rows'} with {reason}, the first {where}"
            for reason, (count, where) in self._refused.items()
        ]
        report = Report(
            check=self._check, datasets=self._tallies, figures=dict(figures or {}),
            examples=self._examples, refusals=[*refusals, *refused, *self._over_cap()],
            listing=list(listing),
        )  # fmt: skip
        return Outcome(report, frozenset(self._removed), rewrite)

    def _refuse(self, place: Place, found: Mapping[str, Finding]) -> None:
        for reason in [reason for reason in self._asked.refuse if reason in found]:
            finding = found[reason]
            told = [f"{place}", finding.field, finding.detail]
            count, first = self._refused.get(reason, (0, ": ".join(filter(None, told))))
            self._refused[reason] = (count + 1, first)

    def _show(self, row: Row | Fault, finding: Finding) -> None:
        about = (row.place.dataset, finding.reason)
        if self._shown[about] < self._asked.examples:
            self._shown[about] += 1
            self._examples.append(
                Example(
                    dataset=row.place.dataset,
                    file=row.place.file,
                    row=row.place.number,
                    id=row.id if isinstance(row, Row) else None,
                    field=finding.field,
                    reason=finding.reason,
                    detail=finding.detail,
                )
            )

    def _over_cap(self) -> Iterator[str]:
        for name, tally in self._tallies.items():
            cap = self._asked.waivers.get(name, self._asked.most_removed)
            share = tally.removed / max(tally.rows, 1)
            if share > cap:
                yield (
                    f"would remove {tally.removed:,} of {tally.rows:,} rows ({share:.1%}) of "
                    f"{name}, more than the cap of {cap:.1%}: read the report, then correct the "
                    f"cause or set waivers.{name}"
                )
