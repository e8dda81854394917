"""Release: serves a checkpoint, makes the release suite's checks, and keeps their report.

A check that fails makes no failed stage: gates decide on the figures, `{suite: release, at_least:
100%}` on the share of checks that hold. A server that dies in the midst leaves no report.
"""

import json
from typing import Literal

from pydantic import Field

from posttrain.names import Name
from posttrain.release.suite import ModelChecks, Report, identity
from posttrain.stages import Outcome, ProcessLost, Progress, StageConfig, StageContext

VERSION = 1
SUITE = "release"
"""Name under which gates know its figures."""


class Config(StageConfig):
    """`model_checks` is what becomes of a check about the model that does not hold.

    `modalities` are what the model takes beside text; `within` bounds the checks, in seconds.
    """

    source: Name = Field(alias="from")
    model_checks: ModelChecks = "fail"
    modalities: tuple[Literal["image", "audio"], ...] = ()
    within: float = Field(default=3600.0, gt=0)

    def inputs(self) -> dict[str, str]:
        """The checkpoint."""
        return {"from": self.source}

    def measures(self) -> tuple[str, ...]:
        """Its figures are those of one suite."""
        return (SUITE,)

    def digests(self) -> dict[str, str]:
        """What the suite is: a report of an earlier one is no report."""
        return {"suite": str(identity()["digest"]), "version": str(identity()["version"])}


def run(context: StageContext[Config]) -> Outcome:
    """Serve, check, and write `report.json`."""
    from posttrain.release.examining import examined

    report, faults = examined(context)
    if report.lost is not None:
        raise ProcessLost(report.lost)
    told = {**report.told(), "parity": faults}
    (context.output / "report.json").write_text(json.dumps(told, indent=1))
    context.report(Progress(len(report.results), report.planned, phase="checks"))
    return Outcome(figures(report, faults), {"suite": identity()})


def figures(report: Report, faults: list[str]) -> dict[str, float]:
    """Shares and counts: `accuracy` is the share of the checks that apply which hold.

    `parity` is 1 if the server renders, tokenises and ends as training does, else 0.
    """
    counts = report.counts
    made = counts["pass"] + counts["warn"] + counts["fail"]
    values = {
        "accuracy": (made - counts["fail"]) / made if made else 0.0,
        "parity": float(not faults),
        **{f"{outcome}_count": float(number) for outcome, number in counts.items()},
    }
    return {f"{SUITE}.{name}": value for name, value in values.items()}
