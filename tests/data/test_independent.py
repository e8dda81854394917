"""Conversations nobody has seen, rendered twice: by the library and by a renderer of its own."""

import random
from typing import Any

import pytest

from posttrain.data.apertus import MEDIA, ApertusFormat
from posttrain.data.chat import ChatFormat
from tests.data.independent import pairs
from tests.evaluation import tiny_model

WORDS = (
    *("the", "sum", "of", "a03", "b12", "é", "→", "\n\n", "`x`", "{}", "[1,", "2]", "naïve", "?"),
    *("12,5", "\t", "漢字", "😀", "don't", ""),
)


def chat() -> ChatFormat:
    """The format over a tokenizer that knows images and sounds."""
    tokenizer = tiny_model.chat_format().tokenizer
    tokenizer.add_tokens(list(MEDIA.values()), special_tokens=True)
    return ChatFormat.from_tokenizer(tokenizer)


CHAT = chat()


def text(draw: random.Random, most: int = 8) -> str:
    return " ".join(draw.choices(WORDS, k=draw.randint(0, most)))


def row(seed: int) -> dict[str, Any]:
    """A conversation: with a system or developer text, tools, images, calls and thoughts or not."""
    draw = random.Random(seed)
    messages = [
        {"role": role, "content": text(draw)}
        for role in ("system", "developer")
        if draw.random() < 0.4
    ]
    for _ in range(draw.randint(1, 3)):
        messages += [asked(draw), *answered(draw)]
    tools = [tool(draw, number) for number in range(draw.choice([0, 0, 1, 3]))]
    return {"messages": messages, "tools": tools, "deliberation": draw.random() < 0.5}


def asked(draw: random.Random) -> dict[str, Any]:
    if draw.random() < 0.6:
        return {"role": "user", "content": text(draw)}
    kinds = draw.choices(["text", "image", "audio"], k=draw.randint(1, 4))
    parts = [{"type": k, "text": text(draw)} if k == "text" else {"type": k} for k in kinds]
    return {"role": "user", "content": parts}


def answered(draw: random.Random) -> list[dict[str, Any]]:
    """A turn: one message of the assistant with outputs beside, or tools that speak themselves."""
    whole: dict[str, Any] = {"role": "assistant"}
    if draw.random() < 0.5:
        whole["thoughts"] = text(draw)
    if draw.random() < 0.5:
        whole["tool_calls"] = [call(draw) for _ in range(draw.randint(1, 3))]
        count = len(whole["tool_calls"])
        if draw.random() < 0.4:
            whole["tool_outputs"] = [text(draw, 3) for _ in range(count)]
        elif draw.random() < 0.7:
            spoken = [{"role": "tool", "content": text(draw, 3)} for _ in range(count)]
            return [whole, *spoken, {"role": "assistant", "content": text(draw) + "."}]
    whole["content"] = text(draw) + "."
    return [whole]


def call(draw: random.Random) -> dict[str, Any]:
    arguments: Any = {"x": text(draw, 3), "n": draw.randint(-5, 5), "flag": draw.random() < 0.5}
    return {"name": draw.choice(["run_code", "look_up", "display_answers"]), "arguments": arguments}


def tool(draw: random.Random, number: int) -> dict[str, Any]:
    kinds: list[dict[str, Any]] = [
        {"type": "string"}, {"type": "integer", "default": 3}, {"type": "boolean"},
        {"type": "array", "items": {"type": "number"}},
        {"type": "number", "description": "how much"},
        {"type": "string", "description": "said", "default": "né"},
    ]  # fmt: skip
    chosen = {
        f"p{index}": spec for index, spec in enumerate(draw.sample(kinds, draw.randint(0, 4)))
    }
    required = [name for name in chosen if draw.random() < 0.5]
    schema = {"type": "object", "properties": chosen, "required": required}
    return {"name": f"tool_{number}", "description": text(draw), "parameters": schema}


@pytest.mark.parametrize("first", range(0, 400, 100))
def test_unseen_conversations_come_out_the_same_by_token_id(first: int) -> None:
    assert isinstance(CHAT, ApertusFormat)
    for seed in range(first, first + 100):
        unseen = row(seed)
        found = CHAT.render(unseen)  # type: ignore[arg-type]
        wanted = pairs(CHAT.tokenizer, unseen)
        masked = [(i, 0 if i in CHAT.untaught else target) for i, target in wanted]
        assert list(zip(found.ids, found.mask, strict=True)) == masked, unseen
