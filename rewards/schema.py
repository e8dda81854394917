"""What travels: an item to verify, and its verdict. A status is never a score.

Only a `scored` verdict carries a number. `abstained` says that the verifier does not apply to the
item, `failed` that the machinery broke; neither may become a reward.
"""

from collections.abc import Mapping, Sequence
from typing import Annotated, Any, Literal, Self

from pydantic import BaseModel, ConfigDict, Field, JsonValue, model_validator
from pydantic_core import from_json

BATCH = 1024
"""Most items of one request; clients split longer lists."""

Status = Literal["scored", "abstained", "failed"]
Score = Annotated[float, Field(ge=0, le=1, allow_inf_nan=False)]


class Wire(BaseModel):
    """Strict JSON: unknown keys and silent conversions are refused."""

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True)


class Item(Wire):
    """One response to verify.

    `answers` are those given through the answer tool, extracted by token id; an empty list says
    that the tool was not called well-formed, which scores 0. `response` is the raw text with its
    tool markers, for callers without token ids. Where both are given, `answers` counts.
    The shapes of `gold` and `parameters` belong to the verifier; it abstains from others.
    """

    id: str
    verifier: str
    response: str | None = None
    answers: list[str] | None = None
    gold: JsonValue = None
    parameters: dict[str, JsonValue] = Field(default_factory=dict)

    @model_validator(mode="after")
    def _has_something_to_verify(self) -> Self:
        if self.response is None and self.answers is None:
            raise ValueError("give `response` or `answers` (an empty list if there are none)")
        return self


class Request(Wire):
    """The body of POST /v1/score; a bare `Item` stands for a list of one."""

    items: list[Item] = Field(min_length=1, max_length=BATCH)


class Verdict(Wire):
    """What a verifier found; `score` is in [0, 1] if and only if the status is `scored`.

    `parts` are the scores it is made of, by name; `feedback` is one line a model can learn from.
    `reason` is a short code from a closed set per verifier, `detail` is for people, `attempt` is 2
    where the first worker was lost, `elapsed_ms` is the time in a worker without queueing.
    """

    id: str
    verifier: str
    status: Status
    score: Score | None = None
    parts: dict[str, Score] | None = None
    feedback: str | None = None
    reason: str | None = None
    detail: str | None = None
    attempt: int = Field(default=1, ge=1)
    elapsed_ms: float = Field(default=0.0, ge=0)

    @model_validator(mode="after")
    def _only_scored_has_a_score(self) -> Self:
        if (self.score is None) == (self.status == "scored"):
            raise ValueError(f"status {self.status} with score {self.score}")
        return self


class Response(Wire):
    """Verdicts in the order of the request's items."""

    verdicts: list[Verdict]


def scored(
    item: Item,
    score: float,
    reason: str | None = None,
    *,
    parts: Mapping[str, float] | None = None,
    feedback: str | None = None,
) -> Verdict:
    """The verdict that `item` earned `score` in [0, 1]; see `Verdict` for the rest."""
    return Verdict(
        id=item.id, verifier=item.verifier, status="scored", score=score, reason=reason,
        parts=None if parts is None else dict(parts), feedback=feedback,
    )  # fmt: skip


def abstained(item: Item, reason: str, detail: str) -> Verdict:
    """The verdict that the verifier does not apply to `item`."""
    return Verdict(
        id=item.id, verifier=item.verifier, status="abstained", reason=reason, detail=detail
    )


def failed(item: Item, reason: str, detail: str) -> Verdict:
    """The verdict that nothing is known because the machinery broke."""
    return Verdict(
        id=item.id, verifier=item.verifier, status="failed", reason=reason, detail=detail
    )


def parse_request(body: bytes) -> Sequence[Item]:
    """Items of a request body; ValueError (pydantic's, or of broken JSON) saying what is wrong."""
    content: Any = from_json(body, allow_inf_nan=False)
    if isinstance(content, dict) and "items" not in content:
        return [Item.model_validate(content)]
    return Request.model_validate(content).items
