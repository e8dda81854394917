"""Findings: each gate's answer, with the figures it rests on. Pure functions of the evidence."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

from posttrain.gates.comparing import Comparison, Scores, compare
from posttrain.gates.config import (
    Equivalence,
    HumanReview,
    Promotion,
    Statistics,
    Threshold,
    describe,
    describe_groups,
)
from posttrain.gates.planning import group_shortfall, shortfall

Figures = Mapping[tuple[str, str], Mapping[str, float]]
"""(stage, suite) -> metric -> value."""


@dataclass(frozen=True)
class Finding:
    """One gate's answer; `measured` holds the same figures as JSON values, for the history."""

    gate: str
    passed: bool
    figures: str
    measured: Mapping[str, Any] = field(default_factory=dict)

    def told(self) -> dict[str, Any]:
        """As JSON values."""
        return asdict(self)


@dataclass(frozen=True)
class Evidence:
    """What gates decide on.

    `equivalence` and `review` return None if they hold, else what is wrong; `waivers` maps a gate,
    as it is described, to who waived it, why and until when.
    """

    figures: Figures = field(default_factory=dict)
    scores: Mapping[tuple[str, str], Scores] = field(default_factory=dict)
    equivalence: Callable[[], str | None] = lambda: "was not examined"
    review: Callable[[], str | None] = lambda: "was not asked for"
    waivers: Mapping[str, str] = field(default_factory=dict)


def findings(promotion: Promotion, evidence: Evidence) -> list[Finding]:
    """Every gate's finding, in the order of the recipe; waivers are taken into account."""
    paired = iter(_paired(promotion, evidence))
    found: list[Finding] = []
    for gate in promotion.gates:
        if isinstance(gate, Equivalence):
            fault = evidence.equivalence()
            found.append(Finding(describe(gate), fault is None, fault or "all digests equal"))
        elif isinstance(gate, HumanReview):
            fault = evidence.review()
            found.append(Finding(describe(gate), fault is None, fault or "signed"))
        elif gate.against is None:
            found.append(_waived(_absolute(gate, promotion.checkpoint, evidence), evidence))
        else:
            found += [_waived(finding, evidence) for finding in next(paired)]
    return found


def _waived(finding: Finding, evidence: Evidence) -> Finding:
    if finding.passed or finding.gate not in evidence.waivers:
        return finding
    why = evidence.waivers[finding.gate]
    measured = {**finding.measured, "waived": why}
    return Finding(finding.gate, True, f"{finding.figures}; waived {why}", measured)


def _absolute(gate: Threshold, checkpoint: str, evidence: Evidence) -> Finding:
    assert gate.at_least is not None
    value = evidence.figures.get((checkpoint, gate.suite), {}).get(gate.metric)
    name = describe(gate)
    if value is None:
        return Finding(name, False, f"{gate.suite}.{gate.metric} of {checkpoint} was not measured")
    told = {"value": value, "bar": gate.at_least}
    return Finding(name, value >= gate.at_least, f"{value:.3f} >= {gate.at_least:.3f}", told)


def _paired(promotion: Promotion, evidence: Evidence) -> list[list[Finding]]:
    """The findings of each paired gate: one, and one more if it asks for every group."""
    compared = [_compared(gate, promotion.checkpoint, evidence) for gate in promotion.paired]
    tests = [test for each in compared if not isinstance(each, str) for test in each]
    adjusted = promotion.statistics.adjusted([test.p for test in tests])
    levels = dict(zip(map(id, tests), adjusted, strict=True))
    found = []
    for gate, each in zip(promotion.paired, compared, strict=True):
        if isinstance(each, str):
            found.append([Finding(name, False, each) for name in _names(gate)])
            continue
        settled = [_Settled(test, levels[id(test)], len(tests)) for test in each]
        found.append(_findings_of(gate, settled, promotion.statistics))
    return found


def _names(gate: Threshold) -> list[str]:
    asked = gate.groups_not_worse_than is not None
    return [describe(gate), *([describe_groups(gate)] if asked else [])]


def _compared(gate: Threshold, checkpoint: str, evidence: Evidence) -> Sequence[Comparison] | str:
    """The tests that `gate` asks for, or why they cannot be made."""
    sides = []
    for stage in (checkpoint, gate.against):
        scores = evidence.scores.get((str(stage), gate.suite))
        if scores is None:
            return f"{gate.suite}.{gate.metric} of {stage} was not measured"
        sides.append(scores)
    try:
        return compare(gate, *sides)
    except ValueError as fault:
        return str(fault)


@dataclass(frozen=True)
class _Settled:
    """A comparison, and its p as one of `tests`."""

    comparison: Comparison
    p: float
    tests: int

    @property
    def told(self) -> dict[str, Any]:
        return {**asdict(self.comparison), "adjusted_p": self.p, "tests": self.tests}

    def text(self) -> str:
        each = self.comparison
        p = f"{self.p:.2g}" if self.p >= 1e-4 else "<0.0001"
        return (
            f"{each.before:.3f} -> {each.after:.3f} ({each.gain * 100:+.1f} points, bar "
            f"{each.bar * 100:+.1f}, p {p}, {each.prompts} prompts)"
        )


def _findings_of(
    gate: Threshold, settled: Sequence[_Settled], statistics: Statistics
) -> list[Finding]:
    whole, *groups = settled
    passed = whole.p <= statistics.error
    text = whole.text()
    if not passed and (why := shortfall(gate, whole.comparison.prompts, statistics, whole.tests)):
        text += f"; {why}"
    found = [Finding(describe(gate), passed, text, whole.told)]
    if gate.groups_not_worse_than is not None:
        found.append(_finding_of_groups(gate, groups, statistics))
    return found


def _finding_of_groups(
    gate: Threshold, groups: Sequence[_Settled], statistics: Statistics
) -> Finding:
    """Holds if each group does; the figures are of those that do not, or of the worst."""
    name = describe_groups(gate)
    if not groups:
        return Finding(name, False, f"the prompts of {gate.suite} have no groups")
    failed = [each for each in groups if each.p > statistics.error]
    shown = failed or [min(groups, key=lambda each: each.comparison.gain)]
    texts = []
    for each in shown:
        text = f"{each.comparison.group}: {each.text()}"
        why = group_shortfall(gate, each.comparison.prompts, statistics, each.tests)
        texts.append(f"{text}; {why}" if failed and why else text)
    measured = {"groups": [each.told for each in groups]}
    return Finding(name, not failed, "; ".join(texts), measured)
