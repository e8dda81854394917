"""Calls are compared by what they mean: order, numbers and optional arguments by stated rules."""

import itertools
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from posttrain.data.probes.functions import Functions, rows
from posttrain.data.turn import AssistantTurn
from posttrain.evaluation.calls import fits, matches, right, same
from posttrain.evaluation.functions import solves
from rewards.calls import Call

EXPECTED = {"name": "f", "arguments": {"a": [1], "b": ["x y", "z"]}, "optional": {"c": [False]}}
TOOL = {
    "name": "f",
    "parameters": {
        "properties": {"a": {"type": "integer"}, "b": {"type": "string", "enum": ["x", "y"]}},
        "required": ["a"],
    },
}
json_values = st.recursive(
    st.none() | st.booleans() | st.integers(-9, 9) | st.floats(-9, 9) | st.text(max_size=4),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=2), inner),
    max_leaves=6,
)


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        ({"a": 1, "b": "x y"}, True),
        ({"b": "z", "a": 1}, True),  # Order is no difference.
        ({"a": 1.0, "b": "X  Y "}, True),
        ({"a": 1, "b": "z", "c": False}, True),  # Optional, with its default.
        ({"a": 1, "b": "z", "c": True}, False),
        ({"a": 1, "b": "z", "c": 0}, False),  # Zero is not false.
        ({"a": True, "b": "z"}, False),
        ({"a": "1", "b": "z"}, False),
        ({"a": 1}, False),
        ({"a": 1, "b": "z", "d": None}, False),
        ([1, "z"], False),
    ],
)
def test_arguments(arguments: Any, told: bool) -> None:
    assert right(Call("f", arguments), EXPECTED) is told
    assert not right(Call("g", arguments), EXPECTED)


@given(json_values)
def test_every_value_is_the_same_as_itself(value: Any) -> None:
    assert same(value, value)


@given(st.lists(st.integers(0, 3), max_size=4), st.randoms(use_true_random=False))
def test_parallel_calls_match_in_any_order_and_none_is_left_over(
    values: list[int], draw: Any
) -> None:
    calls = [Call("f", {"a": value}) for value in values]
    expected = [{"name": "f", "arguments": {"a": [value]}} for value in values]
    draw.shuffle(calls)
    assert matches(calls, expected)
    assert not matches([*calls, Call("f", {"a": 9})], expected)
    assert not values or not matches(calls[1:], expected)


def test_a_call_that_fits_two_leaves_the_other_to_the_one_it_must_be() -> None:
    wide = {"name": "f", "arguments": {"a": [1, 2]}}
    narrow = {"name": "f", "arguments": {"a": [1]}}
    calls = [Call("f", {"a": 1}), Call("f", {"a": 2})]
    for expected in itertools.permutations([wide, narrow]):
        assert matches(calls, expected)


@pytest.mark.parametrize(
    ("call", "told"),
    [
        (Call("f", {"a": 1}), True),
        (Call("f", {"a": 1, "b": "y"}), True),
        (Call("f", {"a": 1, "b": "w"}), False),
        (Call("f", {"a": 1.5}), False),
        (Call("f", {"a": True}), False),
        (Call("f", {"b": "x"}), False),
        (Call("f", {"a": 1, "z": 1}), False),
        (Call("g", {"a": 1}), False),
    ],
)
def test_a_call_fits_the_schema_of_a_tool_on_offer(call: Call, told: bool) -> None:
    assert fits(call, [TOOL]) is told


def test_irrelevance_wants_words_and_relevance_any_fitting_call() -> None:
    none = {"calls": []}
    assert solves(AssistantTurn(content="Blue.", complete=True), none, [TOOL])
    assert not solves(AssistantTurn(content=" ", complete=True), none, [TOOL])
    assert not solves(AssistantTurn(tool_calls=(Call("f", {"a": 1}),)), none, [TOOL])
    free = {"any_of": ["f"]}
    assert solves(AssistantTurn(tool_calls=(Call("f", {"a": 7}),)), free, [TOOL])
    assert not solves(AssistantTurn(tool_calls=(Call("f", {"a": "7"}),)), free, [TOOL])
    assert not solves(AssistantTurn(content="Yes.", complete=True), free, [TOOL])


def test_a_turn_that_breaks_the_format_solves_nothing() -> None:
    assert not solves(AssistantTurn(content="So", error="the turn does not end"), {"calls": []}, [])


def test_made_requests_have_one_right_answer_which_their_own_tools_take() -> None:
    made = rows(3, Functions(holdout=100))
    assert made == rows(3, Functions(holdout=100))
    assert {row["category"] for row in made} == {
        "single", "parallel", "multi_call", "irrelevance", "relevance",
    }  # fmt: skip
    for row in made:
        names = [tool["name"] for tool in row["tools"]]
        assert len(set(names)) == len(names)
        for step in row["steps"]:
            assert set(step.get("any_of", ())) <= set(names)
            calls = [_call(expected) for expected in step.get("calls", ())]
            assert all(fits(call, row["tools"]) for call in calls)
            assert "any_of" in step or matches(calls[::-1], step["calls"])


def _call(expected: Any) -> Call:
    every = {**expected["arguments"], **expected.get("optional", {})}
    return Call(expected["name"], {name: values[0] for name, values in every.items()})
