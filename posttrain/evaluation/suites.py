"""Suites: what a checkpoint is measured on. This half of measuring imports neither torch nor data.

Always holds: a suite names the split it reads, and two suites that are equal measure the same
thing: all that decides a figure but the checkpoint, the rows and the seed is in the suite.
"""

import re
from typing import Annotated, Any, Literal, Self

from pydantic import (
    AfterValidator,
    BaseModel,
    ConfigDict,
    Field,
    NonNegativeInt,
    PositiveInt,
    model_validator,
)

from posttrain.names import Name

_SPLIT = re.compile(r"[a-z][a-z0-9_-]*\.(train|holdout)")


def _a_split(value: str) -> str:
    if not _SPLIT.fullmatch(value):
        raise ValueError(
            f"write ENTRY.train or ENTRY.holdout, of an entry of `data` (it is {value[:60]!r})"
        )
    return value


Split = Annotated[str, AfterValidator(_a_split)]
"""A data artifact and one of its splits, e.g. `prompts.holdout`."""


class _Suite(BaseModel):
    """`may_steer: false` keeps the results out of sight until a promotion: nothing is tuned on it.

    That is part of what the suite is: a figure that was in sight once is not taken for another.
    """

    model_config = ConfigDict(extra="forbid", frozen=True)

    data: Split
    may_steer: bool = True

    @property
    def split(self) -> str:
        """The split of the data artifact whose rows it is measured on."""
        return self.data.partition(".")[2]

    def inputs(self) -> dict[str, str]:
        """Role -> node of the recipe that the suite reads; the rows' role is `suite`."""
        return {"suite": self.data.partition(".")[0]}


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


class Preference(_Suite):
    """Share of pairs whose chosen side the checkpoint gives a higher probability."""

    kind: Literal["preference"]


class Adherence(_Suite):
    """Share of responses that keep `articles` of a charter, or all of its articles, by its rules.

    One response to each prompt; `temperature` 0 takes the likeliest token, and a response is cut at
    `max_new_tokens`.
    """

    kind: Literal["adherence"]
    charter: Name
    articles: Annotated[tuple[str, ...], Field(min_length=1)] | None = None
    temperature: float = Field(default=1.0, ge=0, le=2)
    max_new_tokens: PositiveInt = 64

    def inputs(self) -> dict[str, str]:
        """The rows, and the charter."""
        return {**super().inputs(), "charter": self.charter}


class Degeneration(_Suite):
    """Share of generations that do not fall into repeating: `attempts` at each prompt."""

    kind: Literal["degeneration"]
    attempts: PositiveInt = 1
    temperature: float = Field(default=0.0, ge=0, le=2)
    max_new_tokens: PositiveInt = 2048


class Memorisation(_Suite):
    """What is recalled of documents: `prefix` tokens are given, the next `suffix` compared.

    The first `documents` that are long enough; greedy, and nucleus sampling of `top_p`.
    """

    kind: Literal["memorisation"]
    prefix: PositiveInt = 50
    suffix: PositiveInt = 50
    documents: PositiveInt = 256
    top_p: float = Field(default=0.9, gt=0, le=1)


class _Probe(_Suite):
    """One response to each prompt; `temperature` 0 takes the likeliest token.

    A response is cut at `max_new_tokens`.
    """

    temperature: float = Field(default=0.0, ge=0, le=2)
    max_new_tokens: PositiveInt = 256


class Functions(_Probe):
    """Share of prompts whose calls are right: by name and arguments, as parsed by token id."""

    kind: Literal["functions"]


class Identity(_Probe):
    """Share of replies that name no other provider or model; `own` names are those of this one."""

    kind: Literal["identity"]
    own: Annotated[tuple[str, ...], Field(min_length=1)]


class LanguageSwitch(_Probe):
    """Share of replies in the language that is asked for, by the last turn or in so many words."""

    kind: Literal["language_switch"]


class LongConversation(_Probe):
    """Share of conversations that hold to their end, in which the model goes on with what it said.

    One holds if every reply ends by itself, repeats neither itself nor an earlier one, and the last
    one still knows what was said first.
    """

    kind: Literal["long_conversation"]


class Repetition(_Probe):
    """Share of generations in which no token run of `longest` or more comes twice.

    Nor may any window of 256 tokens have more than 0.8 of its bigrams from repeats.
    """

    kind: Literal["repetition"]
    longest: PositiveInt
    max_new_tokens: PositiveInt = 2048


class Verified(_Suite):
    """Mean score by the verifier that each prompt names: each is tried `attempts` times.

    `temperature` 0 takes the likeliest token; a response is cut at `max_new_tokens`.
    """

    kind: Literal["verified"]
    attempts: PositiveInt = 1
    temperature: float = Field(default=0.0, ge=0, le=2)
    max_new_tokens: PositiveInt = 256

    @model_validator(mode="after")
    def _attempts_differ(self) -> Self:
        if self.attempts > 1 and self.temperature == 0:
            raise ValueError("attempts at temperature 0 are all the same: set temperature: 1.0")
        return self


class Harness(_Suite):
    """A task of lm-evaluation-harness, asked of the served checkpoint; the rows are its documents.

    `task` is the name of one that the harness has, or a definition by its own keys (`include` may
    name one). `metric` and `filter` tell which of its figures is the accuracy. With `chat` prompts
    go through the chat template. The harness must be of `version`, for its tasks change with it.
    """

    kind: Literal["harness"]
    task: str | dict[str, Any]
    version: str
    metric: str
    filter: str = "none"
    chat: bool
    fewshot: NonNegativeInt = 0


Suite = Annotated[
    Continuation
    | Answers
    | Needles
    | LongContext
    | Preference
    | Adherence
    | Degeneration
    | Memorisation
    | Functions
    | Identity
    | LanguageSwitch
    | LongConversation
    | Repetition
    | Harness
    | Verified,
    Field(discriminator="kind"),
]
