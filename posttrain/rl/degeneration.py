"""Responses that go round in circles: told by their ids, and ended (facts.md 2.7).

Always holds: what has a period of p ids over the window, with p at most `distinct` of it, is found;
what has more different pairs of ids than that is not.
"""

from collections.abc import Sequence
from itertools import pairwise
from typing import Annotated, Self

from pydantic import BaseModel, ConfigDict, Field, PositiveInt, model_validator

from posttrain.quantities import Share


class DegenerationConfig(BaseModel):
    """Every `every` ids of a response, its last `window` ids are looked at: it is ended if fewer
    than `distinct` of their pairs of neighbours are different."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    window: Annotated[int, Field(ge=2)] = 512
    every: PositiveInt = 128
    distinct: Share = 0.2

    @model_validator(mode="after")
    def _can_be_met(self) -> Self:
        if self.distinct * (self.window - 1) <= 1:
            raise ValueError(
                f"{self.distinct:.0%} of the pairs in {self.window} ids is one at most, and less "
                "than one is never met; widen `window` or raise `distinct`"
            )
        return self


def degenerate(ids: Sequence[int], config: DegenerationConfig) -> bool:
    """Whether the last of `ids` repeat themselves; never before there is a whole window."""
    if len(ids) < config.window:
        return False
    pairs = list(pairwise(ids[-config.window :]))
    return len(set(pairs)) < config.distinct * len(pairs)
