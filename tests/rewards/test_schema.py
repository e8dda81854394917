"""A status is never a score, on the wire and in Python."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from rewards.schema import Item, Request, Verdict, abstained, failed, parse_request, scored
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
), min_size=1, max_size=4))  # fmt: skip
def test_items_come_back_from_the_wire(items: list[Item]) -> None:
    assert list(parse_request(Request(items=items).model_dump_json().encode())) == items
    assert list(parse_request(items[0].model_dump_json().encode())) == items[:1]


@pytest.mark.parametrize("name", sorted(BUILT_IN))
def test_built_in_verifiers_load_and_know_their_canaries(name: str) -> None:
    verifier = load(name, BUILT_IN[name])
    assert {canary.score for canary in verifier.canaries} == {0.0, 1.0}


def test_verifiers_are_chosen_by_name_or_module() -> None:
    assert select(["math", "mine=a.b"]) == {"math": BUILT_IN["math"], "mine": "a.b"}
    for names in ([""], ["maths"], ["math", "math=a.b"], []):
        with pytest.raises(ValueError, match=r"verifier"):
            select(names)
