"""What a recipe may say of a preference stage beside its data and objective; no torch here."""

from typing import ClassVar

from pydantic import BaseModel, ConfigDict, Field, PositiveFloat, PositiveInt

from posttrain.data.mixture import OnExhausted
from posttrain.judging.config import JudgeConfig
from posttrain.names import Name
from posttrain.quantities import Share
from posttrain.training.optimizers import OptimizerConfig
from posttrain.training.rollouts.config import LocalConfig, RolloutsConfig
from posttrain.training.schedules import ScheduleConfig, WarmupStableDecay

FOLLOW_UP = "{follow_up}"
"""The slot for a user's next message in what a model is told in hindsight."""


class GuardsConfig(BaseModel):
    """What ends a run that is not what it seems.

    `drift` bounds the mean difference between policy and reference, in nats per token, where they
    are one; hardly any weight moved in the first `moves_within` steps is a frozen policy.
    """

    model_config = ConfigDict(extra="forbid", frozen=True)

    drift: PositiveFloat = 0.01
    moves_within: PositiveInt = 10


class UpdatesConfig(BaseModel):
    """The updates of a stage that trains on completions: how many, of how many, and how."""

    model_config = ConfigDict(extra="forbid", frozen=True)
    UNKEYED: ClassVar[frozenset[str]] = frozenset({"save_every"})

    steps: PositiveInt
    batch: PositiveInt
    optimizer: OptimizerConfig
    schedule: ScheduleConfig = ScheduleConfig(wsd=WarmupStableDecay(warmup=0.1, decay=0.4))
    on_exhausted: OnExhausted = "repeat"
    threads: PositiveInt = 1
    save_every: PositiveInt = 50


class StepsConfig(UpdatesConfig):
    """The steps of a preference stage; a batch is of pairs or of prompts.

    With `refresh_every` the policy becomes the reference again after so many steps; without, the
    checkpoint it started from stays it. The suites of `watch`, of pairs, are measured before and
    after.
    """

    refresh_every: PositiveInt | None = None
    guards: GuardsConfig = GuardsConfig()
    watch: tuple[Name, ...] = ()


class LengthsConfig(BaseModel):
    """Most tokens of a prompt (a longer one is refused) and of a response (it is cut)."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    prompt: PositiveInt
    response: PositiveInt


class OnlineConfig(BaseModel):
    """Pairs from the policy itself: of `group` responses to a prompt, the best and the worst.

    Of a step's responses, at most the share `unscored` may be left without a score by the judge,
    whose verdicts are waited for `patience` seconds.
    """

    model_config = ConfigDict(extra="forbid", frozen=True)

    judge: JudgeConfig
    rollouts: RolloutsConfig = LocalConfig()
    group: int = Field(ge=2)
    temperature: PositiveFloat = 1.0
    lengths: LengthsConfig
    unscored: Share = 0.0
    patience: PositiveFloat = 600.0
