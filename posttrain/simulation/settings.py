"""What a settings file of `posttrain simulate` says. Names carry their units.

Three measured times (decoding, a trainer step, a weight sync), what the lengths look like, the
accelerators, and the rules to compare. Everything is per run; nothing has a unit of its own choice.
"""

from typing import Literal, Self

from pydantic import Field, NonNegativeFloat, PositiveInt, model_validator

from posttrain.quantities import Share
from posttrain.simulation.decoding import DecodeConfig
from posttrain.simulation.distributions import Distribution, Strict, scaled
from posttrain.simulation.rules import AnyRule
from posttrain.simulation.scoring import RewardConfig


class RolloutConfig(Strict):
    """Accelerators that generate; `per_replica` of them share one model and its slots."""

    accelerators: PositiveInt
    per_replica: PositiveInt = 1
    slots_per_replica: PositiveInt
    decode: DecodeConfig

    @model_validator(mode="after")
    def _whole_replicas(self) -> Self:
        if self.accelerators % self.per_replica:
            raise ValueError(
                f"{self.accelerators} accelerators do not divide into replicas of "
                f"{self.per_replica}"
            )
        return self


class TrainerConfig(Strict):
    """`step_seconds` is for a whole step on `accelerators`; on others it is inverse to them."""

    accelerators: PositiveInt
    step_seconds: Distribution

    def on(self, accelerators: int) -> "TrainerConfig":
        """The trainer on so many accelerators."""
        seconds = scaled(self.step_seconds, self.accelerators / accelerators)
        return TrainerConfig(accelerators=accelerators, step_seconds=seconds)


class SyncConfig(Strict):
    """A weight sync halts trainer and rollouts for `seconds`.

    What is being generated is resumed after it (partial rollouts), or finished before it.
    """

    seconds: NonNegativeFloat
    in_flight: Literal["resume", "finish"] = "resume"


class SynchronousConfig(Strict):
    """Times of the synchronous baseline, where all accelerators generate and then all train.

    What is not given follows from the others: a trainer step is inverse to accelerators, a sync
    takes as long, decoding has as many more replicas.
    """

    step_seconds: Distribution | None = None
    sync_seconds: NonNegativeFloat | None = None
    decode: DecodeConfig | None = None


class Settings(Strict):
    """One run, and the rules it is to be simulated with.

    A step trains on `prompts_per_step` groups, in `updates_per_step` parts that are trained on as
    they fill; weights are synced once a step. `equal_rewards` is the share of groups that are left
    out. The trainer looks for a batch every `poll_seconds`; 0 is at once.
    """

    seed: int = 1
    steps: PositiveInt = 200
    group_size: PositiveInt
    prompts_per_step: PositiveInt
    updates_per_step: PositiveInt = 1
    length_tokens: Distribution
    rollout: RolloutConfig
    trainer: TrainerConfig
    sync: SyncConfig
    reward: RewardConfig = RewardConfig()
    equal_rewards: Share = Field(default=0.0, lt=1)
    poll_seconds: NonNegativeFloat = 0.0
    synchronous: SynchronousConfig = SynchronousConfig()
    rules: tuple[AnyRule, ...] = Field(min_length=1)

    @model_validator(mode="after")
    def _parts_are_whole(self) -> Self:
        if self.prompts_per_step % self.updates_per_step:
            raise ValueError(
                f"{self.prompts_per_step} prompts do not divide into {self.updates_per_step} "
                "updates"
            )
        return self

    @property
    def accelerators(self) -> int:
        """All of them."""
        return self.rollout.accelerators + self.trainer.accelerators

    def split(self, trainer: int) -> "Settings":
        """The same run with `trainer` accelerators training and the rest generating."""
        rest = self.accelerators - trainer
        rollout = self.rollout.model_copy(update={"accelerators": rest})
        return self.model_copy(update={"trainer": self.trainer.on(trainer), "rollout": rollout})

    def together(self) -> "Settings":
        """The synchronous baseline: all accelerators for either, and a step is one update."""
        everything, given, rollout = self.accelerators, self.synchronous, self.rollout
        trainer = self.trainer.on(everything)
        if given.step_seconds is not None:
            trainer = trainer.model_copy(update={"step_seconds": given.step_seconds})
        sync = self.sync.seconds if given.sync_seconds is None else given.sync_seconds
        generating = {
            "accelerators": everything - everything % rollout.per_replica,
            "decode": given.decode or rollout.decode,
        }
        return self.model_copy(
            update={
                "trainer": trainer,
                "rollout": rollout.model_copy(update=generating),
                "sync": SyncConfig(seconds=sync),
                "updates_per_step": 1,
            }
        )
