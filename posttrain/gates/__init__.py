"""Gates: what must hold before an alias moves. Deciding is pure; figures are gathered elsewhere.

A gate passes only on figures that are there: a missing one refuses, with its name. All gates of a
promotion must hold, so one bar that is not cleared is let through by chance at most at the stated
rate; with Holm's correction that also bounds the chance of any false claim among them.
"""

from posttrain.gates.comparing import Scores
from posttrain.gates.config import (
    UNWAIVABLE,
    Equivalence,
    Gate,
    HumanReview,
    Promotion,
    Statistics,
    Threshold,
    describe,
    described,
)
from posttrain.gates.findings import Evidence, Figures, Finding, findings
from posttrain.gates.planning import refusals

__all__ = [
    "UNWAIVABLE",
    "Equivalence",
    "Evidence",
    "Figures",
    "Finding",
    "Gate",
    "HumanReview",
    "Promotion",
    "Scores",
    "Statistics",
    "Threshold",
    "describe",
    "described",
    "findings",
    "refusals",
]
