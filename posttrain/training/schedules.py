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


class _Falling(BaseModel):
    """After the warm-up the rate falls until the run ends, at `floor` of the peak."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    warmup: Length = 0
    floor: Share = 0.0

    def factor(self, done: int, steps: int) -> float:
        """Share of the peak rate for the step after `done` of `steps` steps."""
        warmup = in_steps(self.warmup, steps)
        if done <= warmup:
            return _warmed(done, warmup)
        passed = min(1.0, (done - warmup) / max(1, steps - warmup))
        return self.floor + (1 - self.floor) * self._left(passed)

    def settling(self, done: int, steps: int) -> bool:
        """Whether a run may end here: while its rate falls."""
        return done > in_steps(self.warmup, steps)

    def _left(self, passed: float) -> float:
        raise NotImplementedError


class Linear(_Falling):
    """The rate falls in a straight line."""

    def _left(self, passed: float) -> float:
        return 1 - passed


class Cosine(_Falling):
    """The rate falls as half a cosine."""

    def _left(self, passed: float) -> float:
        return (1 + math.cos(math.pi * passed)) / 2


Schedule = WarmupStableDecay | Constant | Linear | Cosine


class ScheduleConfig(BaseModel):
    """One of `{wsd: {warmup: 5%, decay: 40%}}`, `{constant: {warmup: 800}}`, `{linear: ...}` and
    `{cosine: {warmup: 5%, floor: 10%}}`.
    """

    model_config = ConfigDict(extra="forbid", frozen=True)

    wsd: WarmupStableDecay | None = None
    constant: Constant | None = None
    linear: Linear | None = None
    cosine: Cosine | None = None

    @model_validator(mode="after")
    def _exactly_one(self) -> Self:
        if len(self._stated) != 1:
            raise ValueError("a schedule is exactly one of wsd, constant, linear and cosine")
        return self

    def factor(self, done: int, steps: int) -> float:
        """Share of the peak rate for the step after `done` of `steps` steps."""
        return self._stated[0].factor(done, steps)

    def settling(self, done: int, steps: int) -> bool:
        """Whether a run of at most `steps` steps may be ended after `done` by a metric."""
        return self._stated[0].settling(done, steps)

    @property
    def _stated(self) -> list[Schedule]:
        each = (self.wsd, self.constant, self.linear, self.cosine)
        return [schedule for schedule in each if schedule is not None]


def _warmed(done: int, warmup: int) -> float:
    return min(1.0, done / warmup) if warmup else 1.0
