"""Rendering and parsing of conversations over a tokenizer trained here."""

import json
import re
from collections.abc import Mapping
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tokenizers import Tokenizer
from transformers import PreTrainedTokenizerFast

from posttrain.data import tiny
from posttrain.data.apertus import EOS, MARKERS, PINS
from posttrain.data.chat import ChatFormat
from posttrain.data.tokenizer import row_texts, train_tokenizer
from posttrain.data.turn import ToolCall, answers
from tests.data.conversations import ALONE, CODE, TEXT, conversations

DIALOGUES = tiny.dialogues(0, 400)
TOKENIZER = train_tokenizer((text for row in DIALOGUES for text in row_texts(row)), 900)
CHAT = ChatFormat.from_tokenizer(TOKENIZER)

SETTINGS = settings(deadline=None, max_examples=60)


def spans(ids: list[int], opening: str, closing: str) -> list[range]:
    """Index ranges from each `opening` to its `closing`, both included."""
    starts = [index for index, token in enumerate(ids) if token == CHAT.control[opening]]
    end = CHAT.control[closing]  # A turn that waits for outputs has none.
    return [range(at, ids.index(end, at) + 1 if end in ids[at:] else len(ids)) for at in starts]


@SETTINGS
@given(conversations(), st.booleans(), st.booleans())
def test_the_template_renders_the_same_ids(row: Any, generate: bool, goes_on: bool) -> None:
    text = TOKENIZER.apply_chat_template(
        row["messages"], tools=row["tools"], enable_thinking=row["deliberation"],
        add_generation_prompt=generate, continue_assistant_message=goes_on, tokenize=False,
    )  # fmt: skip
    rendered = CHAT.render(row, add_generation_prompt=generate, continue_assistant=goes_on)
    assert TOKENIZER.encode(text, add_special_tokens=False) == rendered.ids


@pytest.mark.parametrize("function", [True, False])
def test_an_answer_call_ends_the_turn_in_the_template_in_either_form(function: bool) -> None:
    call: Any = {"name": "display_answers", "arguments": {"answers": ["", ""]}}
    if function:
        call = {"type": "function", "function": call}
    text = TOKENIZER.apply_chat_template(
        [{"role": "assistant", "tool_calls": [call]}], tokenize=False
    )
    assert text.endswith("]}}]<|tools_suffix|><|assistant_end|>")


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
@given(conversations())
def test_a_prompt_is_how_its_answer_begins(row: Any) -> None:
    """What is trained on goes on from what is served, whichever tools answered in between."""
    messages = row["messages"]
    for count in range(1, len(messages)):
        if messages[count]["role"] == "assistant":
            begun = CHAT.prompt({**row, "messages": messages[:count]})
            whole = CHAT.render(row)
            assert whole.ids[: len(begun.ids)] == begun.ids
            assert whole.mask[: len(begun.mask)] == begun.mask


@SETTINGS
@given(
    st.none() | TEXT, st.lists(CODE, max_size=2) | ALONE.map(lambda call: [call]),
    st.lists(TEXT, max_size=2), st.none() | TEXT,
)  # fmt: skip
def test_what_was_rendered_is_parsed_back(
    thoughts: str | None, calls: list[Any], outputs: list[str], content: str | None
) -> None:
    message = {"role": "assistant", "thoughts": thoughts, "tool_calls": calls, "content": content}
    message["tool_outputs"] = outputs if calls else []
    row: Any = {"messages": [message], "tools": [], "deliberation": True}
    turn = CHAT.parse(said(CHAT.render(row).ids))
    assert (turn.error, turn.thoughts, turn.content) == (None, thoughts, content or None)
    called = [ToolCall(call["name"], decoded(call["arguments"])) for call in calls]
    assert turn.tool_calls == tuple(called)
    answer = bool(calls) and calls[0]["name"] == "display_answers"
    assert turn.complete == (not calls or answer or bool(message["tool_outputs"] or content))
    assert answers(turn) == (called[0].arguments["answers"] if answer else None)


def said(ids: list[int]) -> list[int]:
    """What the assistant says after its first start marker."""
    return ids[ids.index(CHAT.control["<|assistant_start|>"]) + 1 :]


def decoded(arguments: Any) -> Any:
    return json.loads(arguments) if isinstance(arguments, str) else arguments


@SETTINGS
@given(st.lists(st.sampled_from(sorted(CHAT.control.values())) | st.integers(300, 400)))
def test_any_ids_parse_and_only_sound_turns_answer(ids: list[int]) -> None:
    turn = CHAT.parse(ids)
    assert turn.complete or turn.error or turn.tool_calls
    assert answers(turn) is None or (turn.complete and turn.error is None)


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
        "Tool Capabilities: disabled<|developer_end|>"
    )


def test_tools_are_declared_as_types() -> None:
    row: Any = {"messages": [], "tools": [tiny.ANSWER_TOOL], "deliberation": True}
    assert TOKENIZER.decode(CHAT.render(row).ids).endswith(
        "Deliberation: enabled\nTool Capabilities:\n// Show the final answers.\n"
        "type display_answers = (_: {\nanswers: string[]\n}) => any;<|developer_end|>"
    )


def test_a_step_by_step_turn_is_one_turn() -> None:
    """Thinking stays open over calls and outputs; two outputs of two calls are one span."""
    call = {"name": "run", "arguments": '{"code": "1+1"}'}
    blocks: list[Any] = [
        {"type": "thoughts", "text": "hm"}, {"type": "tool_calls", "calls": [call, call]},
    ]  # fmt: skip
    row: Any = {"tools": [], "deliberation": True, "messages": [
        {"role": "user", "content": {"parts": [{"type": "text", "text": "so?"}]}},
        {"role": "assistant", "content": {"blocks": blocks}},
        {"role": "tool", "content": "2"},
        {"role": "tool", "content": "2"},
        {"role": "assistant", "content": {"blocks": [
            {"type": "thoughts", "text": " yes"}, {"type": "response", "text": "2."},
        ]}},
    ]}  # fmt: skip
    called = '[{"run": {"code": "1+1"}}, {"run": {"code": "1+1"}}]'
    rendered = CHAT.render(row)
    assert TOKENIZER.decode(said(rendered.ids)) == (
        f"<|inner_prefix|>hm<|tools_prefix|>{called}<|tools_suffix|>"
        "<|tool_output_start|>2, 2<|tool_output_end|> yes<|inner_suffix|>2.<|assistant_end|>"
    )
    turn = CHAT.parse(said(rendered.ids))
    assert (turn.thoughts, turn.content, len(turn.tool_calls)) == ("hm yes", "2.", 2)
    waiting = CHAT.parse(said(CHAT.render({**row, "messages": row["messages"][:2]}).ids))
    assert (waiting.complete, waiting.error) == (False, None)


@pytest.mark.parametrize(
    ("messages", "fault"),
    [
        ([{"role": "user", "content": "a"}, {"role": "system", "content": "b"}], "must lead"),
        ([{"role": "developer", "content": "a"}, {"role": "developer", "content": "b"}], "lead"),
        ([{"role": "user", "content": None}], r"messages\[0\]: content of a user message must be"),
        ([{"role": "tool", "content": "a"}], "must follow the assistant"),
        ([{"role": "critic", "content": "a"}], r"messages\[0\]: unknown role 'critic'"),
        ([{"role": "user", "content": [{"type": "video"}]}], "unknown type 'video'"),
        ([{"role": "assistant", "content": {"blocks": [{"type": "x"}]}}], "unknown type of block"),
        ([{"role": "assistant", "content": {"blocks": [{"text": "x"}]}}], "is malformed"),
        (
            [
                {"role": "assistant", "content": "a"},
                {"role": "assistant", "content": {"blocks": []}},
            ],
            "mix text and blocks",
        ),
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


def rebuilt(rename: Mapping[str, str], *extra: str) -> PreTrainedTokenizerFast:
    """The tokenizer with some control tokens under other names, and with more of them."""
    text = TOKENIZER.backend_tokenizer.to_str()
    for name, other in rename.items():
        text = text.replace(name, other)
    tokenizer = PreTrainedTokenizerFast(tokenizer_object=Tokenizer.from_str(text))
    tokenizer.add_special_tokens({"additional_special_tokens": list(extra)})
    return tokenizer


@pytest.mark.parametrize("name", MARKERS)
def test_every_missing_token_is_named(name: str) -> None:
    with pytest.raises(ValueError, match=re.escape(f"lacks the chat control tokens {name}")):
        ChatFormat.from_tokenizer(rebuilt({name: f"<|other_{name[2:]}"}))


def test_thinking_has_either_name_and_the_lower_id() -> None:
    renamed = rebuilt({"<|inner_prefix|>": "<think>", "<|inner_suffix|>": "</think>"})
    both = rebuilt({"<|inner_prefix|>": "<think>"}, "<|inner_prefix|>")
    for tokenizer in (renamed, both):
        found = ChatFormat.from_tokenizer(tokenizer).control
        assert found["<|inner_prefix|>"] == CHAT.control["<|inner_prefix|>"]
        assert found["<|inner_suffix|>"] == CHAT.control["<|inner_suffix|>"]


def test_a_known_build_has_its_ids(monkeypatch: pytest.MonkeyPatch) -> None:
    assert PINS[266_440]["<|inner_prefix|>"] == 32
    assert PINS[266_440]["<|assistant_end|>"] == 68
    sound = {name: index for name, index in CHAT.control.items() if name in MARKERS}
    monkeypatch.setitem(PINS, len(TOKENIZER), sound)  # type: ignore[arg-type]
    ChatFormat.from_tokenizer(TOKENIZER)
    monkeypatch.setitem(PINS, len(TOKENIZER), {**sound, "<|user_end|>": 3})  # type: ignore[arg-type]
    with pytest.raises(ValueError, match=r"known build, but <\|user_end\|> is \d+, not 3"):
        ChatFormat.from_tokenizer(TOKENIZER)


def test_images_and_sounds_have_a_place_and_are_never_learned() -> None:
    parts = [{"type": "image_url"}, {"type": "text", "text": "and"}, {"type": "input_audio"}]
    row: Any = {"tools": [], "deliberation": False, "messages": [
        {"role": "user", "content": {"parts": parts}}, {"role": "assistant", "content": "yes"},
    ]}  # fmt: skip
    with pytest.raises(ValueError, match=r"lacks <\|image\|>, which the row needs"):
        CHAT.render(row)
    chat = ChatFormat.from_tokenizer(rebuilt({}, "<|image|>", "<|audio|>", "<|stt_continue|>"))
    text = chat.tokenizer.decode(chat.render(row).ids)
    assert "<|user_start|><|image|>and<|audio|><|user_end|>" in text
    assert chat.untaught == {
        chat.control[n] for n in ("<|image|>", "<|audio|>", "<|stt_continue|>")
    }
    row["messages"][0]["content"] = "so <|image|>"
    with pytest.raises(ValueError, match="spells control tokens"):
        chat.render(row)


def test_listed_tokens_are_no_targets() -> None:
    row: Any = tiny.dialogues(0, 1)[0]
    whole = CHAT.render(row)
    chat = CHAT.without_targets(["<|assistant_end|>"])
    masked = chat.render(row)
    changed = [t for t, a, b in zip(whole.ids, whole.mask, masked.mask, strict=True) if a != b]
    assert set(changed) == {CHAT.control["<|assistant_end|>"]}
    with pytest.raises(ValueError, match=r"lacks the tokens <\|nothing\|>"):
        CHAT.without_targets(["<|nothing|>"])


def test_stops_are_the_end_of_the_turn_and_of_text() -> None:
    assert [TOKENIZER.convert_ids_to_tokens(token) for token in CHAT.stop_ids] == [
        "<|assistant_end|>",
        "</s>",
    ]
    assert all(first != second for first, second in pairwise(sorted(CHAT.control.values())))
    assert set(CHAT.control) == {"<s>", "</s>", *MARKERS}
