"""Exact match: why an answer earns nothing, and that any turn is judged at once."""

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rewards.schema import Item, Verdict
from rewards.verifiers.answer import FEEDBACK, LONGEST, Text, verify
from rewards.verifiers.normalisers import NORMALISERS

OPEN, CLOSE = "<|tools_prefix|>", "<|tools_suffix|>"
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=8),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=4), inner, max_size=3)
    ),
    max_leaves=6,
)


def call(*answers: Any) -> str:
    return f"{OPEN}{json.dumps([{'display_answers': {'answers': list(answers)}}])}{CLOSE}"


def judged(response: str, gold: Any = "42", **parameters: Any) -> Verdict:
    return verify(
        Item(id="i", verifier="answer", response=response, gold=gold, parameters=parameters)
    )


@pytest.mark.parametrize(
    ("response", "reason"),
    [
        ("", "no_answer"),
        ("42", "no_answer"),
        (call(), "no_answer"),
        (call("41"), "mismatch"),
        (call("42", "42"), "several_answers"),
        (call("42") + call("42"), "several_calls"),
        (call(42.0), "malformed_call"),
        (call("42")[:-20], "malformed_call"),
        (f'{OPEN}[{{"display_answers": "42"}}]{CLOSE}', "malformed_call"),
        (
            f'{OPEN}[{{"display_answers": {{"answers": ["42"], "sure": true}}}}]{CLOSE}',
            "malformed_call",
        ),
        (call("4" * (LONGEST + 1)), "too_long"),
    ],
)
def test_what_earns_nothing_says_why(response: str, reason: str) -> None:
    verdict = judged(response)
    assert (verdict.score, verdict.reason, verdict.feedback) == (0.0, reason, FEEDBACK[reason])


@pytest.mark.parametrize(
    "gold",
    ["", " ", [], ["42", ""], {}, {"any_of": ["a"], "all_of": ["b"]}, 42, None, {"is": "42"}],
)
def test_a_gold_that_is_none_is_no_score(gold: Any) -> None:
    verdict = judged(call("42"), gold)
    assert (verdict.status, verdict.reason) == ("abstained", "bad_gold")


def test_unknown_parameters_are_no_score() -> None:
    for parameters in ({"normaliser": "loose"}, {"tolerance": 1}, {"tool": {"arg": 1}}):
        verdict = judged(call("42"), **parameters)
        assert (verdict.status, verdict.reason) == ("abstained", "bad_item")


@pytest.mark.parametrize(
    ("gold", "parameters", "detail"),
    [
        (None, {}, "gold is missing"),
        (4, {}, "gold is the number 4; write it as text"),
        ([4], {}, "gold.any_of.0: Input should be a valid string"),
        (["4"], {"normalizer": "text"}, "normalizer: unknown; there are normaliser, tool"),
        (["4"], {"tool": {"arg": 1}}, "tool.arg: Input should be a valid string"),
    ],
)
def test_what_is_wrong_is_named(gold: Any, parameters: dict[str, Any], detail: str) -> None:
    assert judged(call("42"), gold, **parameters).detail == detail


def test_the_worst_of_several_answers_counts() -> None:
    gold = {"all_of": ["red", "blue"]}
    assert judged(call("blue", "red"), gold).score == 1.0
    assert judged(call("blue", "green"), gold).reason == "mismatch"
    assert judged(call("blue"), gold).reason == "mismatch"


def test_every_normaliser_can_be_named() -> None:
    assert set(Text.__args__) == set(NORMALISERS)  # type: ignore[attr-defined]


@given(JSON, st.sampled_from(sorted(NORMALISERS)))
def test_whatever_is_answered_gets_a_verdict(content: Any, name: str) -> None:
    for gold in ("4", "B", "[1]"):
        item = {"display_answers": content}
        verdict = judged(f"{OPEN}{json.dumps([item])}{CLOSE}", gold, normaliser=name)
        assert verdict.status in ("scored", "abstained")


@given(JSON)
def test_structures_equal_themselves_in_any_order(content: Any) -> None:
    text = json.dumps(content, sort_keys=True)
    again = json.dumps(content, indent=2)
    assert NORMALISERS["structured"](text, again)
    assert not NORMALISERS["structured"](text, json.dumps([content, 0]))


@pytest.mark.parametrize("name", sorted(NORMALISERS))
@pytest.mark.parametrize("piece", ["1", "1,", "(a) ", "[", '"', " ", "the ", "0.", "e"])
def test_long_answers_are_judged_in_one_pass(name: str, piece: str) -> None:
    answer = (piece * LONGEST)[: LONGEST - 1] + "!"
    gold = {"choice": "A", "mcq": "A"}.get(name, "1")
    assert judged(call(answer), gold, normaliser=name).score == 0.0
