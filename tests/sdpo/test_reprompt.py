from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from posttrain.data.chat import ChatFormat
from posttrain.data.turn import AssistantTurn, ToolCall
from posttrain.sdpo.config import RepromptConfig
from posttrain.sdpo.reprompt import demonstrated, demonstrator, own_tokens, reprompt
from tests.data.checks.samples import chatml
from tests.evaluation.tiny_model import chat_format

ROW = {
    "messages": [
        {"role": "system", "content": "Be brief."}, {"role": "user", "content": "Why?"},
    ],
    "tools": [], "deliberation": False,
}  # fmt: skip
FLAGS: dict[str, Any] = {
    "length": 96, "template": "{prompt}{demonstration}{feedback}",
    "demonstration_template": " [D {demonstration}]", "feedback_template": " [F {feedback}]",
}  # fmt: skip


@pytest.fixture(scope="module")
def chat() -> ChatFormat:
    return chat_format()


def told(said: str, shown: str, **flags: Any) -> str | None:
    found = reprompt(ROW, said, shown, RepromptConfig(**{**FLAGS, **flags}))
    return None if found is None else str(found["messages"][-1]["content"])


def test_the_last_message_is_replaced_and_the_others_stay() -> None:
    found = reprompt(ROW, "Say more.", "", RepromptConfig(**FLAGS))
    assert found is not None
    assert found["messages"][0] == ROW["messages"][0]
    assert found["messages"][-1] == {"role": "user", "content": "Why? [F Say more.]"}


@pytest.mark.parametrize(
    ("flags", "wanted"),
    [
        ({"feedback": "always"}, "Why? [D Because.] [F Say more.]"),
        ({"feedback": "without_demonstration"}, "Why? [D Because.]"),
        ({"feedback": "never", "demonstration": "any"}, "Why? [D Because.]"),
    ],
)
def test_which_blocks_are_there_is_a_matter_of_flags(flags: dict[str, Any], wanted: str) -> None:
    assert told("Say more.", "Because.", **flags) == wanted


@pytest.mark.parametrize("flags", [{}, {"feedback": "never", "demonstration": "any"}])
def test_without_feedback_and_demonstration_there_is_no_prompt(flags: dict[str, Any]) -> None:
    assert told(" \n", "", **flags) is None


def test_slots_in_texts_are_text() -> None:
    assert told("{prompt} {feedback}", "{demonstration}") == (
        "Why? [D {demonstration}] [F {prompt} {feedback}]"
    )


def test_the_first_success_of_a_group_is_shown_but_to_itself_only_where_asked_for() -> None:
    scores = [0.0, None, 1.0, 1.0]
    others = RepromptConfig(**FLAGS, demonstration="others")
    everyone = RepromptConfig(**FLAGS, demonstration="any")
    assert [demonstrator(index, scores, others) for index in range(4)] == [2, 2, 3, 2]
    assert [demonstrator(index, scores, everyone) for index in range(4)] == [2, 2, 2, 2]
    assert demonstrator(0, scores, RepromptConfig(**FLAGS)) is None
    assert demonstrator(2, [0.0, 0.0, 1.0], others) is None, "a lone success has no other"


def test_thinking_is_cut_by_id(chat: ChatFormat) -> None:
    """A regular expression on decoded text would leave it in: the marks decode to no such text."""
    control = chat.control
    ids = [
        control["<|inner_prefix|>"], *chat.encode("a03 b07"), control["<|inner_suffix|>"],
        *chat.encode("It is 7."), control["<|assistant_end|>"],
    ]  # fmt: skip
    assert demonstrated(chat.parse(ids), thinking=False) == "It is 7."
    assert demonstrated(chat.parse(ids), thinking=True) == "a03 b07\nIt is 7."


def test_calls_are_shown_as_they_are_written() -> None:
    turn = AssistantTurn(tool_calls=(ToolCall("display_answers", {"answers": ["7"]}),))
    assert demonstrated(turn, thinking=False) == '[{"display_answers": {"answers": ["7"]}}]'


@given(st.lists(st.sampled_from(["own", "open", "close"]), max_size=12))
def test_what_tools_put_out_is_not_the_models_own(parts: list[str]) -> None:
    chat = _CHAT
    ids = {
        "own": 300, "open": chat.control["<|tool_output_start|>"],
        "close": chat.control["<|tool_output_end|>"],
    }  # fmt: skip
    mask = own_tokens(chat, [ids[part] for part in parts])
    inside = False
    for part, own in zip(parts, mask, strict=True):
        inside = inside or part == "open"
        assert own == (not inside)
        inside = inside and part != "close"


_CHAT = chat_format()


@pytest.mark.parametrize(
    "flags",
    [
        {"feedback": "never"}, {"template": "{prompt}{feedback}"}, {"length": 0},
        {"feedback_template": "{feedback}{feedback}"},
    ],
)  # fmt: skip
def test_flags_that_teach_nothing_or_lose_something_are_refused(flags: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match="validation error"):
        RepromptConfig(**{**FLAGS, **flags})


def test_a_format_without_marks_for_tool_outputs_has_only_own_tokens() -> None:
    """ChatML has none: its tools speak in turns of their own."""
    assert own_tokens(chatml(), [5, 6, 7]) == [1, 1, 1]
