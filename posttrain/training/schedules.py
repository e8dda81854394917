"""Learning-rate schedules: the share of the peak rate as a pure function of the steps done.

Lengths are steps (`800`) or shares of the run (`5%`). Every schedule warms up linearly from zero.
"""

import math
from typing import Self

from pydantic import BaseModel, ConfigDict, NonNegativeInt, model_validator

from posttrain.quantities import Share

Length = NonNegativeInt | Share
"""Steps (an integer) or a share of the run's steps (`5%`, `0.05`)."""


def in_steps(length: int | float, steps: int) -> int:
    """`length` in steps of a run of `steps`."""
    return length if isinstance(length, int) else round(length * steps)


class Constant(BaseModel):
    """The peak rate after the warm-up."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    warmup: Length = 0

    def factor(self, done: int, steps: int) -> float:
        """Share of the peak rate for the step after `done` of `steps` steps."""
        return _warmed(done, in_steps(self.warmup, steps))

    def settling(self, done: int, steps: int) -> bool:
        """Whether a run may end here: at any time after the warm-up."""
        return done > in_steps(self.warmup, steps)


class WarmupStableDecay(BaseModel):
    """Warm-up, a constant stretch, then a 1-sqrt decay to `floor` of the peak over the last steps.

    The counterpart of Megatron's WSD with `minus_sqrt` decay (facts.md section 8.4).
    """

    model_config = ConfigDict(extra="forbid", frozen=True)

    warmup: Length
    decay: Length
    floor: Share = 0.0

    def factor(self, done: int, steps: int) -> float:
        """Share of the peak rate for the step after `done` of `steps` steps."""
        length = in_steps(self.decay, steps)
        elapsed = done - (steps - length)
        if elapsed <= 0 or done <= in_steps(self.warmup, steps):
            return _warmed(done, in_steps(self.warmup, steps))
        if done > steps or length == 0:
            return self.floor
        return self.floor + (1 - math.sqrt(elapsed / length)) * (1 - self.floor)

    def settling(self, done: int, steps: int) -> bool:
        """Whether a run may end here: while its rate decays."""
        return done > steps - in_steps(self.decay, steps)


class ScheduleConfig(BaseModel):
    """`{wsd: {warmup: 5%, decay: 40%}}` or `{constant: {warmup: 800}}`."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    wsd: WarmupStableDecay | None = None
    constant: Constant | None = None

    @model_validator(mode="after")
    def _exactly_one(self) -> Self:
        if (self.wsd is None) == (self.constant is None):
            raise ValueError("a schedule is exactly one of wsd and constant")
        return self

    def factor(self, done: int, steps: int) -> float:
        """Share of the peak rate for the step after `done` of `steps` steps."""
        return self._chosen.factor(done, steps)

    def settling(self, done: int, steps: int) -> bool:
        """Whether a run of at most `steps` steps may be ended after `done` by a metric."""
        return self._chosen.settling(done, steps)

    @property
    def _chosen(self) -> WarmupStableDecay | Constant:
        chosen = self.wsd or self.constant
        assert chosen is not None
        return chosen


def _warmed(done: int, warmup: int) -> float:
    return min(1.0, done / warmup) if warmup else 1.0
