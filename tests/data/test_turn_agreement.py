"""The reading of a turn by token id, for training, and of its text, for rewards, agree.

Rewards read what stands outside the deliberation of a turn whose ids nobody has. Where both can
tell, they tell the same: the calls, what was said, and the answers.
"""

import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from posttrain.data.apertus import THINKING, ApertusFormat
from posttrain.data.turn import answers
from rewards.turn import read_turn
from rewards.verifiers.answer import NoAnswer, Tool, tool_answers
from tests.evaluation import tiny_model

CHAT = tiny_model.chat_format()
assert isinstance(CHAT, ApertusFormat)
END = CHAT.control["<|assistant_end|>"]

WORDS = st.text(st.sampled_from('ab 1[]{}",:\\|é→\n'), max_size=12)
VALUES = st.recursive(
    st.none() | st.booleans() | st.integers(-9, 9) | WORDS,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(WORDS, inner, max_size=2),
    max_leaves=4,
)
GIVEN = st.lists(WORDS | st.integers(0, 9) | st.booleans(), max_size=3)
ARGUMENTS = st.fixed_dictionaries({"answers": GIVEN}) | VALUES
CALL = st.tuples(st.sampled_from(["display_answers", "run_code"]), ARGUMENTS)
CALLS = st.lists(CALL, min_size=1, max_size=3).map(
    lambda calls: json.dumps([{name: arguments} for name, arguments in calls])
)
BROKEN = st.sampled_from(
    [
        "", "[]", "{}", "[1]", '[{"f": 1, "g": 2}]', '[{"f": NaN}]', '[{"f": "\\ud800"}]',
        '[{"display_answers": {"answers": ["1"], "answers": ["2"]}}]', '[{"f": 1, "f": 2}]',
        '[{"f": 1e999}]',
    ]
)  # fmt: skip
TURN = st.tuples(st.none() | WORDS, WORDS, st.none() | CALLS | BROKEN, WORDS)


def written(thoughts: str | None, before: str, called: str | None, after: str) -> list[int]:
    """The ids of a turn: it may think, speak, call, and speak again."""
    control, ids = CHAT.control, list[int]()
    if thoughts is not None:
        ids += [control["<|inner_prefix|>"], *CHAT.encode(thoughts), control["<|inner_suffix|>"]]
    ids += CHAT.encode(before)
    if called is not None:
        ids += [control["<|tools_prefix|>"], *CHAT.encode(called), control["<|tools_suffix|>"]]
        ids += CHAT.encode(after)
    return [*ids, END]


def text_of(ids: list[int]) -> str:
    return str(CHAT.tokenizer.decode(ids, clean_up_tokenization_spaces=False))


def by_text(text: str) -> list[str] | None:
    try:
        return tool_answers(read_turn(text, own_output=True), Tool()) or None
    except NoAnswer:
        return None


@settings(max_examples=300)
@given(TURN)
def test_a_turn_says_the_same_by_id_and_by_text(turn: tuple[Any, str, Any, str]) -> None:
    ids = written(*turn)
    by_id, read = CHAT.parse(ids), read_turn(text_of(ids), own_output=True)
    assert (by_id.error is None) == (read.malformed is None)
    assert answers(by_id) == by_text(text_of(ids))
    if by_id.error is None:
        assert list(by_id.tool_calls) == read.calls
        assert (by_id.content or "") == read.text


@pytest.mark.parametrize("name", [name for names in THINKING for name in names[1:]])
def test_a_marker_of_thinking_has_two_names_and_one_id(name: str) -> None:
    """Rewards know both, since builds of the tokenizer decode the one id to either."""
    marker = {"<think>": "<|inner_prefix|>", "</think>": "<|inner_suffix|>"}[name]
    turn = text_of(written("hm", "", '[{"run_code": {}}]', ""))
    assert read_turn(turn.replace(marker, name)) == read_turn(turn)


def test_a_key_that_comes_twice_is_no_call_for_either() -> None:
    ids = written(None, "", '[{"display_answers": {"answers": ["1"], "answers": ["2"]}}]', "")
    assert CHAT.parse(ids).error == "tool calls: a key comes twice"
    assert by_text(text_of(ids)) is None


@pytest.mark.parametrize("number", ["1e999", "-1e999", "Infinity", "[2.5e400]"])
def test_an_infinity_however_it_is_written_is_no_call_for_either(number: str) -> None:
    ids = written(None, "", f'[{{"f": {{"x": {number}}}}}]', "")
    assert CHAT.parse(ids).error
    assert read_turn(CHAT.spoken(ids)).malformed


def test_an_integer_is_an_answer_for_both() -> None:
    ids = written(None, "", '[{"display_answers": {"answers": [4, "05"]}}]', "")
    assert answers(CHAT.parse(ids)) == by_text(text_of(ids)) == ["4", "05"]
