"""Suites: what a checkpoint is measured on. This half of measuring imports neither torch nor data.

Always holds: a suite names the split it reads, and two suites that are equal measure the same
thing: all that decides a figure but the checkpoint, the rows and the seed is in the suite.
"""

from typing import Annotated, Literal, Self

from pydantic import BaseModel, ConfigDict, Field, PositiveInt, StringConstraints, model_validator

Split = Annotated[str, StringConstraints(pattern=r"^[a-z][a-z0-9_-]*\.(train|holdout)$")]
"""A data artifact and one of its splits, e.g. `prompts.holdout`."""


class _Suite(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)

    data: Split

    @property
    def split(self) -> str:
        """The split's name; its rows are in the file `<split>.jsonl` of the data artifact."""
        return self.data.partition(".")[2]


class Continuation(_Suite):
    """Share of documents whose continuation the likeliest tokens reproduce exactly."""

    kind: Literal["continuation"]


class Answers(_Suite):
    """Share of prompts answered right: each is tried `attempts` times and judged by `verifier`.

    `temperature` 0 takes the likeliest token; a response is cut at `max_new_tokens`.
    """

    kind: Literal["answers"]
    verifier: Literal["answer", "math"] = "answer"
    attempts: PositiveInt = 1
    temperature: float = Field(default=0.0, ge=0, le=2)
    max_new_tokens: PositiveInt = 64

    @model_validator(mode="after")
    def _attempts_differ(self) -> Self:
        if self.attempts > 1 and self.temperature == 0:
            raise ValueError("attempts at temperature 0 are all the same: set temperature: 1.0")
        return self


class Needles(_Suite):
    """Share of questions on a long note answered right, in all and for each length of note."""

    kind: Literal["needles"]
    max_new_tokens: PositiveInt = 64


class LongContext(_Suite):
    """Share of probes answered right: in all, for each length, for each task, and for both.

    A response is cut at `max_new_tokens`; the rows' generator keeps as many free (`room`).
    """

    kind: Literal["long_context"]
    max_new_tokens: PositiveInt = 128


Suite = Annotated[Continuation | Answers | Needles | LongContext, Field(discriminator="kind")]
