"""The table of all checks, and one run over it."""

import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any, Literal

from posttrain import digest
from posttrain.release import (
    core,
    multi_turn,
    multimodal,
    performance,
    reasoning,
    robustness,
    special_tokens,
    streaming,
    tools,
)
from posttrain.release.check import Check, Fails, Outcome, Result, Skips, Warns
from posttrain.release.endpoint import Gone, Unanswered
from posttrain.release.probe import Probe

VERSION = 1
"""Raised when a check asks or takes something else."""

CHECKS: tuple[Check, ...] = (
    *core.CHECKS, *special_tokens.CHECKS, *streaming.CHECKS, *tools.CHECKS, *multimodal.CHECKS,
    *multi_turn.CHECKS, *reasoning.CHECKS, *robustness.CHECKS, *performance.CHECKS,
)  # fmt: skip
GROUPS = tuple(dict.fromkeys(check.group for check in CHECKS))

ModelChecks = Literal["fail", "warn", "skip"]
"""What becomes of a check about the model that does not hold; with `skip` it is not asked."""

_OUTCOMES: Mapping[type[Exception], Outcome] = {Fails: "fail", Warns: "warn", Skips: "skip"}


@dataclass(frozen=True)
class Report:
    """What a run found; `lost` says why it ended early, if it did: then it is failed."""

    url: str
    model: str
    results: tuple[Result, ...]
    planned: int
    lost: str | None
    seconds: float

    @property
    def counts(self) -> dict[str, int]:
        """Outcome -> number of checks."""
        found = Counter(result.outcome for result in self.results)
        return {outcome: found[outcome] for outcome in ("pass", "fail", "warn", "skip")}

    @property
    def passed(self) -> bool:
        """Whether every check was made and none failed, and something was found at all."""
        whole = self.lost is None and len(self.results) == self.planned
        return whole and not self.counts["fail"] and self.counts["pass"] > 0

    def told(self) -> dict[str, Any]:
        """As JSON values."""
        return {
            "suite": identity(), "url": self.url, "model": self.model, "passed": self.passed,
            "lost": self.lost, "counts": self.counts, "planned": self.planned,
            "seconds": round(self.seconds, 3), "results": [asdict(each) for each in self.results],
        }  # fmt: skip


def identity() -> dict[str, Any]:
    """What the suite is: its version, and a digest of the names of its checks."""
    names = [[check.name, check.group, check.subject] for check in CHECKS]
    return {"version": VERSION, "checks": len(CHECKS), "digest": digest.of_value(names)}


def chosen(groups: Sequence[str]) -> tuple[Check, ...]:
    """The checks of these groups, or all; ValueError names an unknown one."""
    for group in groups:
        if group not in GROUPS:
            raise ValueError(f"unknown group {group!r}; known groups: {', '.join(GROUPS)}")
    return tuple(check for check in CHECKS if not groups or check.group in groups)


def run(
    probe: Probe, checks: Sequence[Check], *, model_checks: ModelChecks = "fail",
    within: float = 1800.0, told: Callable[[Result], None] = lambda result: None,
) -> Report:  # fmt: skip
    """Make the checks one by one; what is not made within `within` seconds has failed.

    It stops where the endpoint is gone: `lost` then says so.
    """
    started = time.monotonic()
    results: list[Result] = []
    lost: str | None = None
    for check in checks:
        left = within - (time.monotonic() - started)
        try:
            result = _made(probe, check, model_checks, left, within)
        except Gone as gone:
            lost = f"{gone}, at check {check.name} ({len(results)} of {len(checks)} were made)"
            break
        results.append(result)
        told(result)
    seconds = time.monotonic() - started
    endpoint = probe.endpoint
    return Report(endpoint.url, endpoint.model, tuple(results), len(checks), lost, seconds)


def _made(
    probe: Probe, check: Check, model_checks: ModelChecks, left: float, within: float
) -> Result:
    started = time.monotonic()
    outcome: Outcome
    if left <= 0:
        outcome, reason = "fail", f"not made within the {within:.0f} s of the suite"
    elif check.subject == "model" and model_checks == "skip":
        outcome, reason = "skip", "about the model, and only the server is examined"
    else:
        outcome, reason = _found(probe, check)
        if outcome == "fail" and check.subject == "model" and model_checks == "warn":
            outcome = "warn"
    seconds = round(time.monotonic() - started, 3)
    return Result(check.name, check.group, check.subject, outcome, reason, seconds)


def _found(probe: Probe, check: Check) -> tuple[Outcome, str]:
    """Outcome and reason; an answer so odd that a check stumbles over it does not pass."""
    try:
        return "pass", check.run(probe)
    except (Fails, Warns, Skips) as found:
        return _OUTCOMES[type(found)], str(found)
    except Unanswered as fault:
        return "fail", str(fault)
    except (KeyError, IndexError, TypeError, AttributeError, ValueError) as fault:
        return "fail", f"an answer is not of the form it must have: {fault!r}"
