"""Gates: what must hold before an alias moves. Deciding is pure; figures are gathered elsewhere.

A gate passes only on figures that are there: a missing one refuses, with its name.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Annotated, Literal, Self

from pydantic import (
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Discriminator,
    Field,
    Tag,
    model_validator,
)

from posttrain.names import Name
from posttrain.quantities import Points, Share


class Threshold(BaseModel):
    """A bar on one suite's metric: absolute (`at_least`) or relative to a baseline stage."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    suite: Name
    metric: str = "accuracy"
    against: Name | None = None
    superior_by: Points | None = None
    not_worse_than: Points | None = None
    at_least: Share | None = None

    @model_validator(mode="after")
    def _one_bar(self) -> Self:
        bars = [self.superior_by, self.not_worse_than, self.at_least]
        if sum(bar is not None for bar in bars) != 1:
            raise ValueError("a gate states one of superior_by, not_worse_than, at_least")
        if (self.at_least is None) != (self.against is not None):
            raise ValueError("superior_by and not_worse_than need `against`, at_least has none")
        return self


class Equivalence(BaseModel):
    """The checkpoint is what its stage recorded: RoPE, tokenizer, template, weights bit-equal."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    equivalence: Literal[True] = True


def _named(value: object) -> object:
    return {"equivalence": True} if value == "equivalence" else value


def _kind(value: object) -> str:
    stated = isinstance(value, Equivalence) or (isinstance(value, dict) and "equivalence" in value)
    return "equivalence" if stated else "threshold"


Gate = Annotated[
    Annotated[Equivalence, Tag("equivalence")] | Annotated[Threshold, Tag("threshold")],
    Discriminator(_kind),
    BeforeValidator(_named),
]


class Promotion(BaseModel):
    """The recipe's `promote` block: which stage's checkpoint, to which alias, past which gates."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    checkpoint: Name
    to: Name
    gates: tuple[Gate, ...] = Field(min_length=1)


@dataclass(frozen=True)
class Finding:
    """One gate's answer, with the figures it rests on."""

    gate: str
    passed: bool
    figures: str


Figures = Mapping[tuple[str, str], Mapping[str, float]]
"""(stage, suite) -> metric -> value."""


def judge(gate: Threshold, checkpoint: str, figures: Figures) -> Finding:
    """Decide one threshold on measured figures; what was not measured refuses."""
    name = describe(gate)
    wanted = [checkpoint] + ([gate.against] if gate.against else [])
    values = []
    for stage in wanted:
        value = figures.get((stage, gate.suite), {}).get(gate.metric)
        if value is None:
            return Finding(name, False, f"{gate.suite}.{gate.metric} of {stage} was not measured")
        values.append(value)
    if gate.against is None:
        assert gate.at_least is not None
        return Finding(name, values[0] >= gate.at_least, f"{values[0]:.3f} >= {gate.at_least:.3f}")
    gain = round(values[0] - values[1], 9)
    bar = gate.superior_by if gate.superior_by is not None else -(gate.not_worse_than or 0.0)
    text = f"{values[1]:.3f} -> {values[0]:.3f} ({gain * 100:+.1f} points, bar {bar * 100:+.1f})"
    return Finding(name, gain >= bar, text)


def describe(gate: Threshold | Equivalence) -> str:
    """The gate in one line, as the recipe states it."""
    if isinstance(gate, Equivalence):
        return "equivalence"
    if gate.at_least is not None:
        return f"{gate.suite}.{gate.metric} at least {gate.at_least:.0%}"
    if gate.superior_by is not None:
        bar = f"superior to {gate.against} by {gate.superior_by * 100:g} points"
    else:
        bar = f"not worse than {gate.against} by {(gate.not_worse_than or 0) * 100:g} points"
    return f"{gate.suite}.{gate.metric} {bar}"


def findings(
    promotion: Promotion, figures: Figures, equivalence: Callable[[], str | None]
) -> list[Finding]:
    """Every gate's finding; `equivalence` returns None if it holds, else what differs."""
    found = []
    for gate in promotion.gates:
        if isinstance(gate, Equivalence):
            fault = equivalence()
            found.append(Finding(describe(gate), fault is None, fault or "all digests equal"))
        else:
            found.append(judge(gate, promotion.checkpoint, figures))
    return found
