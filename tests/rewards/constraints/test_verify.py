"""The verdict: what of a turn is read, how instructions make a score, and what it says."""

import re
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rewards.schema import Item, Verdict
from rewards.verifiers.constraints import CANARIES, verify
from rewards.verifiers.constraints.check import INSTRUCTIONS
from tests.rewards.constraints.asked import follows, verdict

ONCE = "keywords:word_once"
TITLE, NO_COMMA = "detectable_format:title", "punctuation:no_comma"
HIGHLIGHTS = "detectable_format:number_highlighted_sections"


def several(response: str, **parameters: Any) -> Verdict:
    """The verdict by three instructions."""
    kwargs: list[Any] = [{"keyword": "moss"}, None, {}]
    gold: Any = {"instruction_id": [ONCE, NO_COMMA, TITLE], "kwargs": kwargs}
    return verify(
        Item(id="i", verifier="constraints", response=response, gold=gold, parameters=parameters)
    )


def test_all_instructions_make_the_score() -> None:
    found = several("<<Moss>>")
    assert (found.score, found.reason, found.feedback) == (1.0, None, None)


def test_one_unmet_instruction_is_too_many() -> None:
    found = several("<<Moss>>, green.")
    assert (found.score, found.reason) == (0.0, "unmet")
    assert found.parts == {ONCE: 1.0, NO_COMMA: 0.0, TITLE: 1.0}
    assert found.feedback == "not followed: use no comma"


def test_a_fraction_is_the_share_of_followed_ones() -> None:
    assert several("<<Moss>>, green.", score="fraction").score == pytest.approx(2 / 3)
    assert several("<<Moss>>", score="fraction").score == 1.0


def test_feedback_is_one_line_with_the_parameters() -> None:
    found = several("a, b")
    assert found.feedback == (
        "not followed: use the word moss exactly once; use no comma; "
        "write a title such as <<poem of joy>>"
    )


def test_feedback_names_three_and_cuts_long_parameters() -> None:
    long = "moss\n" * 1000
    gold: Any = {"instruction_id": [ONCE] * 5, "kwargs": [{"keyword": long}] * 5}
    found = verify(Item(id="i", verifier="constraints", response="a", gold=gold))
    assert found.feedback is not None
    assert found.feedback.endswith("; and 2 more")
    assert "\n" not in found.feedback
    assert len(found.feedback) < 700


@pytest.mark.parametrize("response", ["", " \n\t", "<think>moss</think>", "<think>moss"])
@pytest.mark.parametrize("evaluation", ["strict", "loose"])
def test_an_empty_response_follows_nothing(response: str, evaluation: str) -> None:
    found = verdict(NO_COMMA, {}, response, evaluation=evaluation)
    assert (found.score, found.reason) == (0.0, "empty")
    assert found.feedback == "nothing is said outside the deliberation and tool calls"


@pytest.mark.parametrize(
    "response",
    [
        "<|inner_prefix|>moss, moss<|inner_suffix|>The moss grew.<|assistant_end|>",
        "<think>moss, moss</think>\n\nThe moss grew.",
        "moss, moss</think>The moss grew.",
        'The moss grew.<|tools_prefix|>[{"f": {"a": "moss, moss"}}]<|tools_suffix|>',
        "The moss grew.<|assistant_end|>, moss",
    ],
)
def test_only_what_is_said_counts(response: str) -> None:
    assert follows(ONCE, {"keyword": "moss"}, response)
    assert follows(NO_COMMA, {}, response)
    assert follows("copy:copy", {"prompt_to_repeat": "The moss grew."}, response)


def test_a_broken_tool_block_leaves_nothing_to_count() -> None:
    assert not follows(NO_COMMA, {}, "The moss grew.<|tools_prefix|>[")


@pytest.mark.parametrize(
    "text",
    [
        "<<think>> of it",
        "<title>",
        "a < b | c > d",
        "<|endoftext|>",
        "[think] *x* `<b>`",
        "<thinking>",
    ],
)
def test_plain_text_with_angular_brackets_is_kept(text: str) -> None:
    assert follows("copy:copy", {"prompt_to_repeat": text}, text)


def test_no_response_is_a_bad_item() -> None:
    found = verify(Item(id="i", verifier="constraints", answers=["a"], gold={}))
    assert (found.status, found.reason) == ("abstained", "bad_item")


@pytest.mark.parametrize(
    "parameters", [{"mode": "fixed"}, {"score": 1}, {"loose": True}, {"evaluation": None}]
)
def test_unknown_parameters_are_a_bad_item(parameters: dict[str, Any]) -> None:
    found = verdict(NO_COMMA, {}, "a", **parameters)
    assert (found.status, found.reason) == ("abstained", "bad_item")
    assert next(iter(parameters)) in (found.detail or "")


@pytest.mark.parametrize(
    ("id", "kwargs", "response"),
    [
        ("startend:end_checker", {"end_phrase": "The end."}, "We left. The end.\nHope it helps!"),
        ("copy:copy", {"prompt_to_repeat": "List birds."}, "Sure:\nList birds.\nThat is all."),
        ("detectable_format:title", {}, "<*<Moss>*>"),
        (
            "length_constraints:number_words",
            {"num_words": 3, "relation": "less than"},
            "Sure\na b",
        ),
    ],
)
def test_loose_evaluation_forgives_edges_and_stars(
    id: str, kwargs: dict[str, Any], response: str
) -> None:
    assert not follows(id, kwargs, response)
    assert follows(id, kwargs, response, evaluation="loose")


@settings(deadline=None)
@given(st.text(st.sampled_from("ab ,.<>*\n"), max_size=30))
def test_what_is_followed_strictly_is_followed_loosely(response: str) -> None:
    for id, kwargs in [(NO_COMMA, {}), (TITLE, {}), (HIGHLIGHTS, {"num_highlights": 1})]:
        strict = follows(id, kwargs, response)
        assert strict <= follows(id, kwargs, response, evaluation="loose")


def test_canaries_tell_right_from_wrong() -> None:
    assert [canary.passes(verify(canary.item)) for canary in CANARIES] == [True, True]
    assert {canary.score for canary in CANARIES} == {0.0, 1.0}


@pytest.mark.parametrize("id", INSTRUCTIONS)
def test_what_was_asked_is_one_line_that_names_real_parameters(id: str) -> None:
    instruction = INSTRUCTIONS[id]
    assert "\n" not in instruction.asked
    named = re.findall(r"\{(\w+)\}", instruction.asked)
    assert set(named) <= set(instruction.parameters.model_fields)
