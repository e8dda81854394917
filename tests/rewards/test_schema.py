"""A status is never a score, on the wire and in Python."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from rewards.media import JSON, decode
from rewards.schema import (
    NESTING,
    Check,
    Item,
    Request,
    Verdict,
    abstained,
    failed,
    scored,
)
from rewards.verifiers import BUILT_IN, load, select

ITEM = Item(id="i", verifier="v", answers=["a"])
TEXTS = st.none() | st.text(max_size=5)


@given(st.sampled_from(["scored", "abstained", "failed"]), st.none() | st.floats())
def test_only_scored_carries_a_number_in_the_unit_interval(
    status: str, score: float | None
) -> None:
    row = {"id": "i", "verifier": "v", "status": status, "score": score}
    if (score is not None and 0 <= score <= 1) if status == "scored" else score is None:
        assert Verdict.model_validate(row).score == score
    else:
        with pytest.raises(ValidationError):
            Verdict.model_validate(row)


def test_the_three_verdicts() -> None:
    assert scored(ITEM, 0.5, "half").score == 0.5
    assert abstained(ITEM, "no", "why").score is None
    assert failed(ITEM, "no", "why").status == "failed"
    with pytest.raises(ValidationError):
        scored(ITEM, 1.5)


@given(st.lists(st.builds(
    Item, id=st.text(max_size=5), verifier=st.text(max_size=5), response=st.text(max_size=9),
    answers=st.none() | st.lists(st.text(max_size=5), max_size=3), gold=TEXTS,
), min_size=1, max_size=4, unique_by=lambda item: item.id))  # fmt: skip
def test_items_come_back_from_the_wire(items: list[Item]) -> None:
    assert list(decode(Request(items=items).model_dump_json().encode(), JSON)) == items
    assert list(decode(items[0].model_dump_json().encode(), JSON)) == items[:1]


@pytest.mark.parametrize("name", sorted(BUILT_IN))
def test_built_in_verifiers_load_and_know_their_canaries(name: str) -> None:
    _, profile = load(name, BUILT_IN[name])
    assert {canary.score for canary in profile.canaries} == {0.0, 1.0}


def test_verifiers_are_chosen_by_name_or_module() -> None:
    assert select(["math", "mine=a.b"]) == {"math": BUILT_IN["math"], "mine": "a.b"}
    for names in ([""], ["maths"], ["math", "math=a.b"], []):
        with pytest.raises(ValueError, match=r"verifier"):
            select(names)


@given(st.floats(0, 1), TEXTS, TEXTS, st.none() | st.dictionaries(st.text(), st.floats(0, 1)))
def test_a_verdict_is_whole_however_it_was_made(
    score: float, reason: str | None, feedback: str | None, parts: dict[str, float] | None
) -> None:
    verdict = scored(ITEM, score, reason, parts=parts, feedback=feedback)
    validated = Verdict(
        id="i", verifier="v", status="scored", score=score, reason=reason, parts=parts,
        feedback=feedback,
    )  # fmt: skip
    assert verdict == validated
    assert verdict.model_dump_json() == validated.model_dump_json()
    assert verdict.model_copy(update={"attempt": 2}) == validated.model_copy(update={"attempt": 2})
    assert Verdict.model_validate_json(verdict.model_dump_json()) == verdict


@pytest.mark.parametrize("score", [-0.1, 1.1, float("nan"), float("inf"), True, "1"])
def test_a_score_is_a_number_in_the_unit_interval(score: Any) -> None:
    with pytest.raises(ValidationError):
        scored(ITEM, score)


@pytest.mark.parametrize("half", ["\ud800", "a\udfff"])
@pytest.mark.parametrize(
    "where",
    [
        {"response": "{half}"},
        {"answers": ["{half}"]},
        {"response": "", "gold": "{half}"},
        {"response": "", "gold": [{"{half}": 1}]},
        {"response": "", "parameters": {"a": ["{half}"]}},
    ],
)
def test_half_a_surrogate_pair_is_refused(where: dict[str, Any], half: str) -> None:
    """It cannot be sent on: one such answer voided all verdicts of its request."""

    def filled(value: Any) -> Any:
        if isinstance(value, dict):
            return {filled(key): filled(each) for key, each in value.items()}
        if isinstance(value, list):
            return [filled(each) for each in value]
        return value.replace("{half}", half) if isinstance(value, str) else value

    with pytest.raises(ValidationError, match="surrogate"):
        Item.model_validate({"id": "i", "verifier": "v", **filled(where)})


@pytest.mark.parametrize("field", ["gold", "parameters"])
def test_nesting_has_a_limit(field: str) -> None:
    """Deeper gold could be sent, but neither serialised for a worker nor read from the ledger."""
    for levels, fine in ((NESTING, True), (NESTING + 1, False)):
        value: Any = 1
        for _ in range(levels - 1):
            value = [value]
        row = {"verifier": "v", field: {"a": value}}
        for model, more in ((Item, {"id": "i", "response": ""}), (Check, {})):
            if fine:
                model.model_validate(row | more)
            else:
                with pytest.raises(ValidationError, match="levels"):
                    model.model_validate(row | more)
