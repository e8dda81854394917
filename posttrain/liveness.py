"""How long what runs may be silent: a bound that each component earns by its own signs of life.

A component reports as it goes on. Its bound is a multiple of the 99th percentile of the time
between its reports so far, never below a floor nor above a ceiling; who waits for another says so,
and is not to blame for its silence.
"""

import itertools
import statistics
import time
from collections.abc import Sequence

from pydantic import BaseModel, ConfigDict, Field, model_validator

_ENOUGH = 20
"""Intervals from which a 99th percentile means something; until then the floor holds."""


class Stalled(RuntimeError):
    """A stage, or a component of it, was silent for longer than its bound."""


class Bounds(BaseModel):
    """After how many seconds of silence a component is given up, and how a run then ends.

    Stages and what they are made of earn their bound: `times` the p99 of their intervals, within
    `floor` and `ceiling`; `start` is the bound of the first sign. A service answers at once if it
    lives: `service` bounds its silence, and it is started again. `controller` bounds that of the
    controller, whose watcher then kills the run. `drain` bounds the end of a run that has been
    given up.
    """

    model_config = ConfigDict(extra="forbid", frozen=True)

    start: float = Field(default=900, gt=0)
    floor: float = Field(default=900, gt=0)
    ceiling: float = Field(default=7200, gt=0)
    times: float = Field(default=10, ge=1)
    service: float = Field(default=120, gt=0)
    controller: float = Field(default=900, gt=0)
    drain: float = Field(default=30, gt=0)

    @model_validator(mode="after")
    def _in_order(self) -> "Bounds":
        if self.ceiling < self.floor:
            raise ValueError(f"ceiling ({self.ceiling:g} s) lies below floor ({self.floor:g} s)")
        return self

    def earned(self, signs: Sequence[float]) -> float:
        """Seconds of silence allowed after signs of life at these times (s, in order)."""
        if not signs:
            return self.start
        intervals = [after - before for before, after in itertools.pairwise(signs)]
        if len(intervals) < _ENOUGH:
            return self.floor
        p99 = statistics.quantiles(intervals, n=100, method="inclusive")[-1]
        return min(max(self.times * p99, self.floor), self.ceiling)


class Watch:
    """Since when components are silent, by the clock of who watches them.

    That clock stands still while the machine sleeps, and no other machine's clock matters.
    """

    def __init__(self) -> None:
        self._heard: dict[str, tuple[object, float]] = {}

    def silence(self, name: str, sign: object) -> float:
        """Seconds since the latest `sign` of `name` was first seen."""
        now = time.monotonic()
        last, since = self._heard.get(name, (None, now))
        if name not in self._heard or last != sign:
            self._heard[name] = (sign, now)
            return 0.0
        return now - since

    def forget(self, name: str) -> None:
        """Begin anew with `name`, which is started again."""
        for known in [known for known in self._heard if f"{known}/".startswith(f"{name}/")]:
            del self._heard[known]
