"""Chat templates with generation markers, ChatML among them, over a tokenizer trained here."""

import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from transformers import PreTrainedTokenizerFast

from posttrain.data import tiny
from posttrain.data.chat import ChatFormat
from posttrain.data.checks.inputs import Inputs
from posttrain.data.checks.lint import Parameters, run
from posttrain.data.rendering import render
from posttrain.data.templates import CHATML, TemplateFormat
from posttrain.data.turn import ToolCall
from tests.data.checks.samples import chatml, dataset
from tests.data.conversations import ALONE, CODE, TEXT, conversations

CHAT = chatml()
TOKENIZER = CHAT.tokenizer
SETTINGS = settings(deadline=None, max_examples=60)
SOLID = TEXT.filter(str.strip)

LLAMA_LIKE = (
    "{{ bos_token }}{% for m in messages %}{{ '[' + m.role + ']' + m.content if m.role == 'user' }}"
    "{% if m.role == 'assistant' %}{% generation %}{{ m.content + eos_token }}{% endgeneration %}"
    "{% endif %}{% endfor %}"
)


def templated(template: str | None) -> PreTrainedTokenizerFast:
    """A tokenizer without turn markers, with a template of its own."""
    backend = TOKENIZER.backend_tokenizer.to_str()
    for name in ("<|im_start|>", "<|im_end|>"):
        backend = backend.replace(name, name.replace("im", "other"))
    return PreTrainedTokenizerFast(
        tokenizer_object=type(TOKENIZER.backend_tokenizer).from_str(backend),
        chat_template=template, bos_token="<s>", eos_token="</s>",
    )  # fmt: skip


def test_the_tokenizer_tells_the_format() -> None:
    assert isinstance(CHAT, TemplateFormat)
    assert TOKENIZER.chat_template == CHATML
    bare = PreTrainedTokenizerFast(tokenizer_object=TOKENIZER.backend_tokenizer, eos_token="</s>")
    assert isinstance(ChatFormat.from_tokenizer(bare), TemplateFormat)
    assert [CHAT.tokenizer.convert_ids_to_tokens(i) for i in CHAT.stop_ids] == [
        "<|im_end|>",
        "</s>",
    ]
    with pytest.raises(ValueError, match="lacks the chat control tokens"):
        ChatFormat.from_tokenizer(templated(None))


@pytest.mark.parametrize(
    ("template", "told"),
    [
        ("{{ messages[0].content }}", "no {% generation %} markers"),
        (LLAMA_LIKE.replace(" + eos_token", ""), "does not end with a special token"),
        (LLAMA_LIKE.replace("m.role == 'assistant'", "false"), "does not end with a special"),
    ],
)
def test_a_template_that_does_not_mark_what_is_said_is_refused(template: str, told: str) -> None:
    with pytest.raises(ValueError, match=told):
        ChatFormat.from_tokenizer(templated(template))


def test_any_template_with_markers_will_do() -> None:
    chat = ChatFormat.from_tokenizer(templated(LLAMA_LIKE))
    row: Any = {"tools": [], "deliberation": False, "messages": [
        {"role": "user", "content": "a3"}, {"role": "assistant", "content": "so b4"},
    ]}  # fmt: skip
    found = chat.render(row)
    said = [token for token, target in zip(found.ids, found.mask, strict=True) if target]
    assert chat.tokenizer.decode(found.ids) == "<s>[user]a3so b4</s>"
    assert chat.tokenizer.decode(said) == "so b4</s>"
    assert chat.parse(said).content == "so b4"
    assert (found.ids[0], chat.stop_ids) == (chat.bos, [chat.eos])
    document = render(chat, {"text": "b4"})
    assert chat.tokenizer.decode(document.ids) == "<s>b4</s>"
    before = chat.render({**row, "text": "c5"})
    assert chat.tokenizer.decode(before.ids) == "<s>c5[user]a3so b4</s>"
    assert sum(before.mask) == sum(found.mask) + len(chat.encode("c5"))


@SETTINGS
@given(
    st.none() | SOLID, st.lists(CODE, max_size=2) | ALONE.map(lambda call: [call]),
    st.none() | SOLID,
)  # fmt: skip
def test_what_was_rendered_is_parsed_back(
    thoughts: str | None, calls: list[Any], content: str | None
) -> None:
    wrapped = [{"type": "function", "function": call} for call in calls]
    message = {"role": "assistant", "thoughts": thoughts, "tool_calls": wrapped, "content": content}
    row: Any = {"messages": [message], "tools": [], "deliberation": True}
    found = CHAT.render(row)
    said = [token for token, target in zip(found.ids, found.mask, strict=True) if target]
    turn = CHAT.parse(said)
    assert (turn.complete, turn.error) == (True, None)
    assert (turn.thoughts, turn.content) == (thoughts, content)
    assert turn.tool_calls == tuple(ToolCall(c["name"], decoded(c["arguments"])) for c in calls)


def decoded(arguments: Any) -> Any:
    return json.loads(arguments) if isinstance(arguments, str) else arguments


@SETTINGS
@given(conversations())
def test_targets_are_what_the_assistant_says(row: Any) -> None:
    """From after each `assistant` line to the end marker, outputs and users left out."""
    found = CHAT.render(row)
    start, end = CHAT.control["<|im_start|>"], CHAT.control["<|im_end|>"]
    opened = [start, *CHAT.encode("assistant\n")]
    expected = [0] * len(found.ids)
    for at, token in enumerate(found.ids):
        if token == start:
            stop = found.ids.index(end, at)
            head = CHAT.tokenizer.decode(found.ids[at + 1 : stop])
            if head.startswith("assistant\n"):
                expected[at + len(opened) : stop + 1] = [1] * (stop + 1 - at - len(opened))
    # A first line break may be one token with the one before it: it is not the assistant's then.
    told = zip(found.mask, expected, strict=True)
    assert sum(a != b for a, b in told) <= 2 * found.ids.count(start)
    assert all(b or not a for a, b in zip(found.mask, expected, strict=True))


def test_text_cannot_forge_a_control_token() -> None:
    row: Any = tiny.prompts(0, 1, 1.0)[0]
    row["messages"][0]["content"] += "<|im_end|>"
    with pytest.raises(ValueError, match="spells control tokens"):
        CHAT.render(row)


def test_thinking_needs_its_tokens() -> None:
    chat = ChatFormat.from_tokenizer(templated(LLAMA_LIKE))
    del chat.control["<think>"]  # type: ignore[attr-defined]
    row: Any = {"messages": [{"role": "assistant", "thoughts": "a"}], "tools": []}
    with pytest.raises(ValueError, match="lacks <think>, which the row needs"):
        chat.render({**row, "deliberation": True})


def test_a_prompt_may_open_the_thinking() -> None:
    row: Any = tiny.prompts(0, 1, 1.0)[0]
    free = CHAT.render(row, add_generation_prompt=True)
    forced = CHAT.render(row, add_generation_prompt=True, force_thinking=True)
    assert forced.ids == [*free.ids, CHAT.control["<think>"]]
    assert not any(forced.mask)
    close = [CHAT.control["</think>"], *CHAT.encode("09"), CHAT.stop_ids[0]]
    assert CHAT.parse([*CHAT.encode("a03"), *close], force_thinking=True).thoughts == "a03"


def test_tiny_rows_pass_the_lint() -> None:
    outcome = run(Inputs([dataset(tiny.dialogues(1, 20))], chat=CHAT), Parameters())
    outcome.require()
    assert not outcome.report.reasons
