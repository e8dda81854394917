"""Lengths and times as a settings file gives them, and draws from them.

A number is always that number, a lognormal is told by its median and 99th percentile, and counts
are a histogram whose keys stand for themselves.
"""

import math
from collections.abc import Callable
from itertools import accumulate
from random import Random
from typing import Self

from pydantic import BaseModel, ConfigDict, Field, NonNegativeFloat, PositiveFloat, model_validator

_P99 = 2.3263478740408408
"""Standard deviations from the mean of a normal distribution to its 99th percentile."""


INFINITE = math.inf


class Strict(BaseModel):
    """Settings: unknown keys are errors, and nothing changes."""

    model_config = ConfigDict(extra="forbid", frozen=True)


class LognormalConfig(Strict):
    """`median` and 99th percentile; what would be more than `most` is `most`."""

    median: PositiveFloat
    p99: PositiveFloat
    most: PositiveFloat | None = None

    @model_validator(mode="after")
    def _ordered(self) -> Self:
        if self.p99 < self.median:
            raise ValueError(f"p99 {self.p99:g} is below the median {self.median:g}")
        return self

    def scaled(self, factor: float) -> "LognormalConfig":
        """Of `factor` times the values."""
        most = self.most and self.most * factor
        return LognormalConfig(median=self.median * factor, p99=self.p99 * factor, most=most)


class CountsConfig(Strict):
    """A histogram: value -> how often it was seen."""

    counts: dict[NonNegativeFloat, NonNegativeFloat] = Field(min_length=1)

    @model_validator(mode="after")
    def _some(self) -> Self:
        if sum(self.counts.values()) <= 0:
            raise ValueError("all counts are 0")
        return self

    def scaled(self, factor: float) -> "CountsConfig":
        """Of `factor` times the values."""
        return CountsConfig(counts={value * factor: n for value, n in self.counts.items()})


Distribution = NonNegativeFloat | LognormalConfig | CountsConfig
Draw = Callable[[int], list[float]]
"""n -> that many values."""


def scaled(distribution: Distribution, factor: float) -> Distribution:
    """The distribution of `factor` times what it gives."""
    if isinstance(distribution, float | int):
        return distribution * factor
    return distribution.scaled(factor)


def drawer(distribution: Distribution, seed: str) -> Draw:
    """Draws that depend on `distribution`, `seed` and how many came before, on nothing else."""
    source = Random(seed)
    if isinstance(distribution, CountsConfig):
        values = list(distribution.counts)
        weights = list(accumulate(distribution.counts.values()))
        return lambda n: source.choices(values, cum_weights=weights, k=n)
    if isinstance(distribution, LognormalConfig):
        return _lognormal(distribution, source)
    return lambda n: [distribution] * n


def _lognormal(wanted: LognormalConfig, source: Random) -> Draw:
    middle = math.log(wanted.median)
    width = (math.log(wanted.p99) - middle) / _P99
    most = wanted.most or math.inf
    exp, gauss = math.exp, source.gauss
    return lambda n: [min(exp(gauss(middle, width)), most) for _ in range(n)]
