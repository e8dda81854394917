"""What travels: an item to verify, and its verdict. A status is never a score.

Only a `scored` verdict carries a number. `abstained` says that the verifier does not apply to the
item, `failed` that the machinery broke; neither may become a reward.
"""

import math
from collections.abc import Mapping, Sequence
from typing import Annotated, Any, Literal, Self

from pydantic import (
    BaseModel,
    ConfigDict,
    Discriminator,
    Field,
    JsonValue,
    Tag,
    ValidationError,
    field_validator,
    model_validator,
)

BATCH = 1024
"""Most items of one request; clients split longer lists."""

NESTING = 64
"""Levels of lists and objects in gold or parameters."""

CHECKS = 16
"""Most checks of one composite item."""

COMPOSITE = "composite"
"""The verifier that verdicts on composite items name."""

Status = Literal["scored", "abstained", "failed"]
Score = Annotated[float, Field(ge=0, le=1)]
Combination = Literal["mean", "min", "product", "all"]


class Wire(BaseModel):
    """Strict JSON: unknown keys, silent conversions, NaN and infinities are refused."""

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True, allow_inf_nan=False)


_SOMETHING: dict[str, Any] = {
    "anyOf": [
        {"required": ["response"], "properties": {"response": {"type": "string"}}},
        {"required": ["answers"], "properties": {"answers": {"type": "array"}}},
    ]
}


class _Candidate(Wire):
    model_config = ConfigDict(json_schema_extra=_SOMETHING)

    id: str
    response: str | None = None
    answers: list[str] | None = None

    @model_validator(mode="after")
    def _has_something_to_verify(self) -> Self:
        if self.response is None and self.answers is None:
            raise ValueError("give `response` or `answers` (an empty list if there are none)")
        _refuse_halves(self.id, self.response or "", *(self.answers or ()))
        return self


class _Question(Wire):
    verifier: str
    gold: JsonValue = None
    parameters: dict[str, JsonValue] = Field(default_factory=dict)

    @model_validator(mode="after")
    def _can_travel(self) -> Self:
        if self.parameters:
            _refuse_unsound(self.parameters, NESTING)
        _refuse_unsound(self.gold, NESTING)
        return self


def _refuse_unsound(value: JsonValue, levels: int) -> None:
    """What JSON cannot say, or the next reader might not take."""
    if isinstance(value, str):
        _refuse_halves(value)
    elif isinstance(value, float) and not math.isfinite(value):
        # In JSON, pydantic takes 1e999 for infinity, whatever the configuration says.
        raise ValueError("numbers are finite")
    elif isinstance(value, dict | list):
        if not levels:
            raise ValueError(f"at most {NESTING} levels of lists and objects")
        if isinstance(value, dict):
            _refuse_halves(*value)
            value = list(value.values())
        for part in value:
            _refuse_unsound(part, levels - 1)


def _refuse_halves(*texts: str) -> None:
    for text in texts:
        if not text.isascii():
            try:
                text.encode()
            except UnicodeEncodeError as fault:
                raise ValueError(f"half a surrogate pair at character {fault.start}") from None


class Item(_Candidate, _Question):
    """One response to verify.

    `answers` are those given through the answer tool, extracted by token id; an empty list says
    that the tool was not called well-formed, which scores 0. `response` is the raw text with its
    tool markers, for callers without token ids. Where both are given, `answers` counts.
    The shapes of `gold` and `parameters` belong to the verifier; it abstains from others.
    """


class Check(_Question):
    """One verifier of a composite item; `weight` is its share of a mean."""

    weight: float = Field(default=1.0, gt=0, le=1e6)


class Composite(_Candidate):
    """One response that several verifiers check; its score combines theirs.

    `mean` is weighted, `all` is 1 where every part is, else 0. One failed check makes the verdict
    `failed`, else one that abstained makes it `abstained`. No verifier comes twice.
    """

    checks: list[Check] = Field(min_length=1, max_length=CHECKS)
    combine: Combination = "mean"

    @field_validator("checks")
    @classmethod
    def _name_each_verifier_once(cls, checks: list[Check]) -> list[Check]:
        names = [check.verifier for check in checks]
        if len(set(names)) < len(names):
            raise ValueError("name each verifier once")
        return checks


def _kind(entry: Any) -> str:
    composite = isinstance(entry, Composite) or (isinstance(entry, dict) and "checks" in entry)
    return COMPOSITE if composite else "item"


Entry = Item | Composite
_Entry = Annotated[
    Annotated[Item, Tag("item")] | Annotated[Composite, Tag(COMPOSITE)], Discriminator(_kind)
]


class Request(Wire):
    """The body of POST /v1/score; a bare item stands for a list of one.

    Verdicts are by content, and an id only says whose they are: equal items share one whatever
    their ids, and the same id may come again in another request. Within one, items for the same
    verifier that differ have different ids.
    """

    items: list[_Entry] = Field(min_length=1, max_length=BATCH)

    @field_validator("items")
    @classmethod
    def _ask_one_question_by_one_id(cls, items: list[Entry]) -> list[Entry]:
        if len({item.id for item in items}) < len(items):
            first: dict[tuple[str, str], Entry] = {}
            for item in items:
                asked = item.verifier if isinstance(item, Item) else COMPOSITE
                if first.setdefault((item.id, asked), item) != item:
                    raise ValueError(f"two items for {asked} differ but have one id, {item.id!r}")
        return items


class _Plain(Request):
    items: list[Item] = Field(min_length=1, max_length=BATCH)  # type: ignore[assignment]


class Verdict(Wire):
    """What a verifier found; `score` is in [0, 1] if and only if the status is `scored`.

    `parts` are the scores it is made of, by name; `feedback` is one line a model can learn from.
    `reason` is a short code from a closed set per verifier, `detail` is for people, `attempt` is 2
    where the first worker was lost, `elapsed_ms` is the time the check took, without queueing.
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
    fields: dict[str, Any] = {
        "id": item.id, "verifier": item.verifier, "status": "scored", "score": score,
        "parts": None if parts is None else dict(parts), "feedback": feedback, "reason": reason,
        "detail": None, "attempt": 1, "elapsed_ms": 0.0,
    }  # fmt: skip
    if parts is None and type(score) is float and 0.0 <= score <= 1.0:
        return _known_to_be_right(fields)
    return Verdict.model_validate(fields)


def _known_to_be_right(fields: dict[str, Any]) -> Verdict:
    """A verdict without validation, which would take longer than many a check.

    As `Verdict.model_construct`, which takes longer still.
    """
    verdict = _new(Verdict)
    _set(verdict, "__dict__", fields)
    _set(verdict, "__pydantic_fields_set__", _FIELDS)
    _set(verdict, "__pydantic_extra__", None)
    _set(verdict, "__pydantic_private__", None)
    return verdict


_new, _set = object.__new__, object.__setattr__
_FIELDS = set(Verdict.model_fields)


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


def plain_items(body: bytes) -> Sequence[Item] | None:
    """Items of a JSON body if none is composite and nothing is wrong; None if in doubt.

    In one go and without a union it takes half the time of `entries`.
    """
    try:
        if b'"items"' in body:
            return _Plain.model_validate_json(body).items
        return [Item.model_validate_json(body)]
    except ValidationError:
        return None


def entries(content: Any) -> Sequence[Entry]:
    """Items of a request that has been decoded; pydantic's ValidationError otherwise."""
    if isinstance(content, dict) and "items" not in content:
        model: type[Entry] = Composite if "checks" in content else Item
        return [model.model_validate(content)]
    return Request.model_validate(content).items
