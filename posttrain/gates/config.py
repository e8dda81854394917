"""What a recipe says of gates, before anything is measured."""

from collections.abc import Sequence
from typing import Annotated, Any, Literal, Self

from pydantic import (
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Discriminator,
    Field,
    StringConstraints,
    Tag,
    model_validator,
)

from posttrain.gates.correction import holm
from posttrain.names import Name, nearest
from posttrain.quantities import Points, Share

Test = Literal["mcnemar", "bootstrap"]


class Statistics(BaseModel):
    """How sure a promotion must be, and what it plans with.

    `error` is the chance, one-sided, that bars which are not cleared are found cleared; `power`
    the chance to find what a gate looks for; `discordant` the share of prompts on which two
    checkpoints are taken to differ. With `correction: holm` the error is that of all paired tests
    of the promotion together, else of each.
    """

    model_config = ConfigDict(extra="forbid", frozen=True)

    error: Annotated[Share, Field(gt=0, lt=0.5)] = 0.025
    power: Annotated[Share, Field(ge=0.5, lt=1)] = 0.8
    discordant: Annotated[Share, Field(gt=0)] = 0.1
    correction: Literal["holm", "none"] = "holm"

    def adjusted(self, p_values: Sequence[float]) -> list[float]:
        """The p values to compare with `error`."""
        return holm(p_values) if self.correction == "holm" else list(p_values)


class Threshold(BaseModel):
    """A bar on one suite's metric: absolute (`at_least`), or relative to a baseline stage.

    A relative bar is a paired test over the suite's prompts: the gain is shown to be more than
    `superior_by`, or the loss less than `not_worse_than`; `groups_not_worse_than` asks the latter
    of each group of prompts too. An absolute bar is on the figure itself. `test` is, if not said,
    McNemar's where each prompt was tried once and is right or wrong, else the bootstrap.
    `expected` is the true gain that the gate must find; `digest` pins what the suite is.
    """

    model_config = ConfigDict(extra="forbid", frozen=True)

    suite: Name
    metric: str = "accuracy"
    against: Name | None = None
    superior_by: Points | None = None
    not_worse_than: Points | None = None
    at_least: Share | None = None
    groups_not_worse_than: Points | None = None
    test: Test | None = None
    expected: Points | None = None
    digest: Annotated[str, StringConstraints(pattern=r"^[0-9a-f]{12,64}$")] | None = None

    @model_validator(mode="after")
    def _one_bar(self) -> Self:
        bars = [self.superior_by, self.not_worse_than, self.at_least]
        if sum(bar is not None for bar in bars) != 1:
            raise ValueError("a gate states one of superior_by, not_worse_than, at_least")
        if (self.at_least is None) != (self.against is not None):
            raise ValueError("superior_by and not_worse_than need `against`, at_least has none")
        return self

    @model_validator(mode="after")
    def _paired(self) -> Self:
        if self.against is None:
            stated = [self.groups_not_worse_than, self.test, self.expected]
            if any(value is not None for value in stated):
                raise ValueError("groups_not_worse_than, test and expected need `against`")
        elif self.metric != "accuracy":
            raise ValueError(
                f"only accuracy is known for each prompt, so {self.metric} can have no paired "
                "test; state at_least"
            )
        if self.superior_by == 0 and not self.expected:
            raise ValueError(
                "superior_by: 0 points says not what gain to look for; add e.g. expected: 5 points"
            )
        if self.superior_by and self.expected is not None and self.expected <= self.superior_by:
            raise ValueError("a gain that is expected lies above superior_by")
        return self

    @property
    def bar(self) -> float:
        """What the gain over the baseline must exceed; below 0 where a loss is allowed."""
        return self.superior_by if self.superior_by is not None else -(self.not_worse_than or 0.0)


class Equivalence(BaseModel):
    """The checkpoint is what its stage recorded: RoPE, tokenizer, template, weights bit-equal."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    equivalence: Literal[True] = True


class HumanReview(BaseModel):
    """A person has signed for this checkpoint and alias (`posttrain sign`), and still does."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    sign_off: Literal[True] = True


UNWAIVABLE = ("equivalence", "sign_off")
"""Gates that a recipe names in one word; they cannot be waived."""


def _named(value: object) -> object:
    if isinstance(value, str) and value not in UNWAIVABLE:
        raise ValueError(f"unknown gate: {value[:60]!r}; {nearest(value, UNWAIVABLE)}")
    return {value: True} if value in UNWAIVABLE else value


def _kind(value: object) -> str:
    if isinstance(value, Equivalence | HumanReview):
        return "equivalence" if isinstance(value, Equivalence) else "sign_off"
    return next((w for w in UNWAIVABLE if isinstance(value, dict) and w in value), "threshold")


Gate = Annotated[
    Annotated[Equivalence, Tag("equivalence")]
    | Annotated[HumanReview, Tag("sign_off")]
    | Annotated[Threshold, Tag("threshold")],
    Discriminator(_kind),
    BeforeValidator(_named),
]


class Promotion(BaseModel):
    """The recipe's `promote` block: which stage's checkpoint, to which alias, past which gates."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    checkpoint: Name
    to: Name
    gates: tuple[Gate, ...] = Field(min_length=1)
    statistics: Statistics = Statistics()

    @property
    def paired(self) -> tuple[Threshold, ...]:
        """The gates that compare with a baseline."""
        return tuple(gate for gate in self.gates if isinstance(gate, Threshold) and gate.against)


def describe(gate: Any) -> str:
    """The gate in one line, as the recipe states it."""
    if isinstance(gate, Equivalence):
        return "equivalence"
    if isinstance(gate, HumanReview):
        return "sign_off"
    assert isinstance(gate, Threshold)
    if gate.at_least is not None:
        return f"{gate.suite}.{gate.metric} at least {gate.at_least:.0%}"
    if gate.superior_by is not None:
        bar = f"superior to {gate.against} by {gate.superior_by * 100:g} points"
    else:
        bar = f"not worse than {gate.against} by {(gate.not_worse_than or 0) * 100:g} points"
    return f"{gate.suite}.{gate.metric} {bar}"


def describe_groups(gate: Threshold) -> str:
    """What a gate asks of each group, in one line."""
    margin = (gate.groups_not_worse_than or 0) * 100
    each = f"{gate.suite}.{gate.metric} of each group"
    return f"{each} not worse than {gate.against} by {margin:g} points"


def described(promotion: Promotion) -> list[str]:
    """What all findings of a promotion are called, in their order."""
    names: list[str] = []
    for gate in promotion.gates:
        names.append(describe(gate))
        if isinstance(gate, Threshold) and gate.groups_not_worse_than is not None:
            names.append(describe_groups(gate))
    return names
