"""Rendering and parsing of conversations over a tokenizer trained here."""

from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from transformers import PreTrainedTokenizerFast

from posttrain.data import tiny
from posttrain.data.chat import EOS, MARKERS, ChatFormat
from posttrain.data.tokenizer import row_texts, train_tokenizer
from posttrain.data.turn import answers

DIALOGUES = tiny.dialogues(0, 400)
TOKENIZER = train_tokenizer((text for row in DIALOGUES for text in row_texts(row)), 900)
CHAT = ChatFormat.from_tokenizer(TOKENIZER)

SETTINGS = settings(deadline=None, max_examples=60)
TEXT = st.text(st.characters(exclude_characters="<", exclude_categories=["Cs"]), max_size=30)
ARGUMENTS = st.fixed_dictionaries({"answers": st.lists(TEXT, min_size=1, max_size=3)})
CALLS = st.lists(
    st.fixed_dictionaries(
        {"name": st.sampled_from(["display_answers", "run_code"]), "arguments": ARGUMENTS}
    ),
    max_size=2,
)
ASSISTANT = st.fixed_dictionaries(
    {
        "role": st.just("assistant"),
        "thoughts": st.none() | TEXT,
        "tool_calls": CALLS,
        "tool_outputs": st.lists(TEXT, max_size=2),
        "content": st.none() | TEXT,
    }
)
USER = st.fixed_dictionaries({"role": st.just("user"), "content": TEXT})
LEADING = st.sampled_from([[], ["system"], ["developer"], ["system", "developer"]])


@st.composite
def conversations(draw: st.DrawFn) -> Any:
    leading = [{"role": role, "content": draw(TEXT)} for role in draw(LEADING)]
    turns = draw(st.lists(USER | ASSISTANT, min_size=1, max_size=4))
    bare = {**tiny.ANSWER_TOOL, "parameters": {}}
    tools = draw(st.sampled_from([[], [tiny.ANSWER_TOOL], [bare, tiny.ANSWER_TOOL]]))
    return {"messages": leading + turns, "tools": tools, "deliberation": draw(st.booleans())}


def spans(ids: list[int], opening: str, closing: str) -> list[range]:
    """Index ranges from each `opening` to its `closing`, both included."""
    starts = [index for index, token in enumerate(ids) if token == CHAT.control[opening]]
    return [range(start, ids.index(CHAT.control[closing], start) + 1) for start in starts]


@SETTINGS
@given(conversations(), st.booleans())
def test_the_template_renders_the_same_ids(row: Any, generate: bool) -> None:
    text = TOKENIZER.apply_chat_template(
        row["messages"], tools=row["tools"], enable_thinking=row["deliberation"],
        add_generation_prompt=generate, tokenize=False,
    )  # fmt: skip
    rendered = CHAT.render(row, add_generation_prompt=generate)
    assert TOKENIZER.encode(text, add_special_tokens=False) == rendered.ids


@SETTINGS
@given(conversations())
def test_targets_are_what_the_assistant_says(row: Any) -> None:
    rendered = CHAT.render(row)
    expected = [0] * len(rendered.ids)
    for turn in spans(rendered.ids, "<|assistant_start|>", "<|assistant_end|>"):
        expected[turn.start + 1 : turn.stop] = [1] * (len(turn) - 1)
    for output in spans(rendered.ids, "<|tool_output_start|>", "<|tool_output_end|>"):
        expected[output.start : output.stop] = [0] * len(output)
    assert rendered.mask == expected
    assert rendered.ids.count(CHAT.control["<s>"]) == 1
    assert rendered.ids[0] == CHAT.control["<s>"]


@SETTINGS
@given(ASSISTANT)
def test_what_was_rendered_is_parsed_back(message: dict[str, Any]) -> None:
    if not message["tool_calls"]:
        message["tool_outputs"] = []
    row: Any = {"messages": [message], "tools": [], "deliberation": True}
    rendered = CHAT.render(row)
    start = rendered.ids.index(CHAT.control["<|assistant_start|>"]) + 1
    turn = CHAT.parse(rendered.ids[start:])
    assert (turn.complete, turn.error) == (True, None)
    assert turn.thoughts == message["thoughts"]
    assert turn.content == (message["content"] or None)
    called = [{"name": call.name, "arguments": call.arguments} for call in turn.tool_calls]
    assert called == message["tool_calls"]
    displayed = [call for call in called if call["name"] == "display_answers"]
    only = displayed[0]["arguments"]["answers"] if len(displayed) == 1 else None
    assert answers(turn) == only


@SETTINGS
@given(st.lists(st.sampled_from(sorted(CHAT.control.values())) | st.integers(300, 400)))
def test_any_ids_parse_and_only_sound_turns_answer(ids: list[int]) -> None:
    turn = CHAT.parse(ids)
    assert turn.complete or turn.error
    assert answers(turn) is None or turn.error is None


@pytest.mark.parametrize("marker", ["<|user_end|>", "<s>", EOS])
def test_text_cannot_forge_a_control_token(marker: str) -> None:
    row = tiny.prompts(0, 1, 1.0)[0]
    row["messages"][0]["content"] += marker
    with pytest.raises(ValueError, match="spells control tokens"):
        CHAT.render(row)  # type: ignore[arg-type]


def test_forced_thinking_opens_the_span_in_the_prompt() -> None:
    row: Any = tiny.prompts(0, 1, 1.0)[0]
    free = CHAT.render(row, add_generation_prompt=True)
    forced = CHAT.render(row, add_generation_prompt=True, force_thinking=True)
    assert forced.ids == [*free.ids, CHAT.control["<|inner_prefix|>"]]
    assert set(forced.mask) == {0}
    text = TOKENIZER.apply_chat_template(
        row["messages"], tools=row["tools"], enable_thinking=True, force_thinking=True,
        add_generation_prompt=True, tokenize=False,
    )  # fmt: skip
    assert TOKENIZER.encode(text, add_special_tokens=False) == forced.ids
    thought = [*CHAT.encode("a03"), CHAT.control["<|inner_suffix|>"], *CHAT.encode("so")]
    response = [*thought, CHAT.control["<|assistant_end|>"]]
    assert CHAT.parse(response, force_thinking=True).thoughts == "a03"
    assert CHAT.parse(response).error == "<|inner_suffix|> out of place"


def test_system_and_developer_blocks_are_there_when_the_row_has_none() -> None:
    row: Any = {"messages": [], "tools": [], "deliberation": False}
    text = TOKENIZER.decode(CHAT.render(row).ids)
    assert text == (
        "<s><|system_start|><|system_end|><|developer_start|>Deliberation: disabled\n"
        "Tool Capabilities: disabled\n<|developer_end|>"
    )


def test_tools_are_declared_as_types() -> None:
    row: Any = {"messages": [], "tools": [tiny.ANSWER_TOOL], "deliberation": True}
    assert TOKENIZER.decode(CHAT.render(row).ids).endswith(
        "Deliberation: enabled\nTool Capabilities:\n// Show the final answers.\n"
        "type display_answers = (_: {\nanswers: string[],\n}) => any;\n<|developer_end|>"
    )


@pytest.mark.parametrize(
    ("messages", "fault"),
    [
        ([{"role": "user", "content": "a"}, {"role": "system", "content": "b"}], "must lead"),
        ([{"role": "developer", "content": "a"}, {"role": "developer", "content": "b"}], "lead"),
        ([{"role": "user", "content": None}], "must be text"),
    ],
)
def test_messages_out_of_place_are_refused(messages: list[dict[str, Any]], fault: str) -> None:
    row: Any = {"messages": messages, "tools": [], "deliberation": False}
    with pytest.raises(ValueError, match=fault):
        CHAT.render(row)


def test_a_tokenizer_without_the_control_tokens_is_refused() -> None:
    plain = PreTrainedTokenizerFast(tokenizer_object=TOKENIZER.backend_tokenizer.from_str(
        '{"model": {"type": "BPE", "vocab": {"a": 0}, "merges": []}}'
    ))  # fmt: skip
    with pytest.raises(ValueError, match="lacks the chat control tokens"):
        ChatFormat.from_tokenizer(plain)


def test_stops_are_the_end_of_the_turn_and_of_text() -> None:
    assert [TOKENIZER.convert_ids_to_tokens(token) for token in CHAT.stop_ids] == [
        "<|assistant_end|>",
        "</s>",
    ]
    assert all(first != second for first, second in pairwise(sorted(CHAT.control.values())))
    assert set(CHAT.control) == {"<s>", "</s>", *MARKERS}
