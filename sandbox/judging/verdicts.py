"""From how a run ended to a verdict. An ending is told by the slot, so nothing here is a claim."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from sandbox.schema import Result, TestResult, Verdict
from sandbox.tiers import Limits, Run

HEAD = 2000
"""Bytes of a stream that are told."""

_BUSY = 0.1
"""Share of the wall time which a program must have computed for a rerun to promise anything."""

_OF_LIMITS: dict[str, Verdict] = {"wall": "TLE", "cpu": "TLE", "memory": "MLE", "output": "OLE"}


@dataclass(frozen=True)
class Finding:
    """A verdict with a word for people, which never tells what was expected."""

    verdict: Verdict
    detail: str | None = None


OK = Finding("OK")
WRONG = Finding("WA")


def of_ending(run: Run) -> Finding | None:
    """What is wrong with how a run ended; None if it ended well, by itself with exit code 0."""
    if run.ending in _OF_LIMITS:
        return Finding(_OF_LIMITS[run.ending])
    if run.ending == "signalled":
        return Finding("RE", f"ended by signal {run.signal}")
    return Finding("RE", f"exit code {run.exit_code}") if run.exit_code else None


def result(name: str, finding: Finding, run: Run) -> TestResult:
    """What is told of a test."""
    cut = max(len(run.stdout), len(run.stderr)) > HEAD or run.ending == "output"
    detail = finding.detail and finding.detail.encode(errors="replace").decode()
    return TestResult(
        id=name, verdict=finding.verdict, limit=_clock(finding, run), detail=detail,
        exit_code=run.exit_code, signal=run.signal,
        wall_s=round(run.wall, 4), cpu_s=round(run.cpu, 4),
        peak_mb=None if run.peak is None else round(run.peak / 2**20, 1),
        stdout=_head(run.stdout), stderr=_head(run.stderr), truncated=cut,
    )  # fmt: skip


def _clock(finding: Finding, run: Run) -> Literal["cpu", "wall"] | None:
    if finding.verdict != "TLE":
        return None
    return "cpu" if run.ending == "cpu" else "wall"


def _head(stream: bytes) -> str:
    return stream[:HEAD].decode("utf-8", "replace")


def deserves_rerun(result: TestResult, limits: Limits) -> bool:
    """Whether a slow machine may have made this TLE: it computed, but had less than its time.

    What used up its CPU time has had it, and what slept was not kept waiting by us.
    """
    return result.limit == "wall" and _BUSY * limits.wall <= result.cpu_s < limits.cpu


def whole(tests: Sequence[TestResult], total: int) -> Verdict:
    """The verdict on a program: OK if each of `total` tests is.

    Our fault comes first, as nothing then is sure; a failed test outweighs one that cannot be
    judged, so that no program escapes its verdict by being odd.
    """
    verdicts = [test.verdict for test in tests]
    if "IE" in verdicts:
        return "IE"
    failed = [verdict for verdict in verdicts if verdict not in ("OK", "UNSUPPORTED")]
    if failed:
        return failed[0]
    return "OK" if verdicts == ["OK"] * total and total else "UNSUPPORTED"


def summed(
    submission: str, tier: str, tests: Sequence[TestResult], total: int, queue_s: float
) -> Result:
    """The result of a submission whose tests were carried out."""
    verdict = whole(tests, total)
    reward: Literal[0, 1] | None = 1 if verdict == "OK" else 0
    return Result(
        id=submission, verdict=verdict, tier=tier, tests=list(tests), total=total,
        reward=None if verdict in ("IE", "UNSUPPORTED") else reward,
        retryable=verdict == "IE", queue_s=round(queue_s, 4),
    )  # fmt: skip
