"""A conversation in any of the forms that data come in, as turns.

Known are messages with an assistant's fields side by side (`thoughts`, `tool_calls`,
`tool_outputs`, `content`), those of the OpenAI API (calls of functions, messages of role `tool`),
and structured ones (`{"parts": [...]}` of a user, `{"blocks": [...]}` of an assistant).

Always holds: an assistant's turn is all that comes before the user speaks again; system and
developer lead; the assistant's messages of one conversation are all text or all structured.
"""

import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Literal, NamedTuple, NotRequired, TypedDict

Kind = Literal["thoughts", "tool_calls", "tool_outputs", "response"]
Role = Literal["system", "developer", "user", "assistant"]
LEADING: tuple[Role, ...] = ("system", "developer")

MEDIA: Mapping[str, str] = {
    f"{prefix}{kind}{suffix}": kind
    for kind in ("image", "audio")
    for prefix, suffix in (("", ""), ("", "_url"), ("input_", ""))
}
"""Types of a user's part -> what it stands for; its content is placed where the model reads it."""


class Conversation(TypedDict):
    """What is rendered of a dialogue or prompt row; further keys of the row are ignored.

    `text` is a document before the chat, all of it a target as in pretraining. A tool's
    `parameters` are a JSON schema.
    """

    text: NotRequired[str]
    messages: Sequence[Mapping[str, Any]]
    tools: Sequence[Mapping[str, Any]]
    deliberation: bool


class Part(NamedTuple):
    """A text, or the place of an image or a sound (then `text` is empty)."""

    kind: Literal["text", "image", "audio"]
    text: str = ""


class Call(NamedTuple):
    """A tool call; `arguments` is JSON."""

    name: str
    arguments: str


class Block(NamedTuple):
    """What an assistant's turn consists of; of the fields after `kind` it has its own alone."""

    kind: Kind
    text: str = ""
    calls: tuple[Call, ...] = ()
    outputs: tuple[str, ...] = ()


Blocks = tuple[Block, ...]


class Turn(NamedTuple):
    """What one role says: blocks of the assistant, parts of the others."""

    role: Role
    parts: tuple[Part, ...] = ()
    blocks: Blocks = ()


def turns(messages: Sequence[Mapping[str, Any]]) -> list[Turn]:
    """The turns of `messages`; ValueError names the message at fault."""
    _alike(messages)
    found: list[Turn] = []
    for index, message in enumerate(messages):
        try:
            turn = _turn(message)
        except (KeyError, TypeError, AttributeError) as fault:
            raise ValueError(f"messages[{index}] is malformed: {fault!r}") from None
        except ValueError as fault:
            raise ValueError(f"messages[{index}]: {fault}") from None
        _placed(found, turn, messages, index)
    return found


def function(tool: Mapping[str, Any]) -> Mapping[str, Any]:
    """Name, description and parameters of a tool, which the OpenAI API wraps up."""
    inner = tool.get("function")
    return inner if isinstance(inner, Mapping) else tool


def _alike(messages: Sequence[Mapping[str, Any]]) -> None:
    """ValueError if the assistant speaks in text here and in blocks there."""
    forms = {
        isinstance(message["content"], Mapping)
        for message in messages
        if message.get("role") == "assistant" and message.get("content") is not None
    }
    if len(forms) > 1:
        raise ValueError("the assistant's messages mix text and blocks; write all in one form")


def _placed(
    found: list[Turn], turn: Turn, messages: Sequence[Mapping[str, Any]], index: int
) -> None:
    """Append the turn of a message, or let the assistant's turn before it go on."""
    role, last = messages[index]["role"], found[-1] if found else None
    if turn.role == "assistant" and last and last.role == "assistant":
        merges = role == messages[index - 1]["role"] == "tool"
        found[-1] = Turn("assistant", blocks=_joined(last.blocks, turn.blocks, merges))
        return
    if role == "tool":
        raise ValueError(f"messages[{index}]: a tool's output must follow the assistant")
    if turn.role in LEADING and [each.role for each in found] not in _BEFORE[turn.role]:
        raise ValueError(f"messages[{index}]: {turn.role!r} message out of place; it must lead")
    found.append(turn)


_BEFORE: Mapping[str, list[list[str]]] = {"system": [[]], "developer": [[], ["system"]]}
"""Role that leads -> the roles that may come before it."""


def _joined(before: Blocks, after: Blocks, merges: bool) -> Blocks:
    """Outputs in one message each answer the calls of one: they are one block."""
    if not merges:
        return before + after
    outputs = before[-1].outputs + after[0].outputs
    return (*before[:-1], Block("tool_outputs", outputs=outputs))


def _turn(message: Mapping[str, Any]) -> Turn:
    role = message["role"]
    if role == "assistant":
        return Turn(role, blocks=tuple(_blocks(message)))
    if role == "tool":
        return Turn("assistant", blocks=(Block("tool_outputs", outputs=(_text(message),)),))
    if role == "user":
        return Turn(role, tuple(_parts(message)))
    if role in LEADING:
        return Turn(role, (Part("text", _text(message)),))
    raise ValueError(f"unknown role {role!r}")


def _text(message: Mapping[str, Any]) -> str:
    content = message.get("content")
    if isinstance(content, Mapping) and message["role"] in LEADING:
        content = content.get("text")
    if not isinstance(content, str):
        raise ValueError(f"content of a {message['role']} message must be text, got {content!r}")
    return content


def _parts(message: Mapping[str, Any]) -> Iterator[Part]:
    content = message.get("content")
    listed = content.get("parts") if isinstance(content, Mapping) else content
    if not isinstance(listed, list | tuple):
        yield Part("text", _text(message))
        return
    for number, part in enumerate(listed):
        kind = part["type"]
        if kind == "text":
            yield Part("text", part["text"])
        elif kind in MEDIA:
            yield Part(MEDIA[kind])  # type: ignore[arg-type]
        else:
            raise ValueError(f"part {number} is of unknown type {kind!r}")


def _blocks(message: Mapping[str, Any]) -> Iterator[Block]:
    """The blocks of one message; those side by side in the order that a turn has."""
    content = message.get("content")
    if isinstance(content, Mapping):
        yield from (_block(block) for block in content["blocks"])
        content = None
    elif content is not None and not isinstance(content, str):
        raise ValueError(f"content of an assistant message must be text or blocks, got {content!r}")
    if (thoughts := message.get("thoughts")) is not None:
        yield Block("thoughts", thoughts)
    calls = message.get("tool_calls") or ()
    first = any("function" in call for call in calls)
    if content and first:  # The OpenAI API's calls end a message.
        yield Block("response", content)
    if calls:
        yield Block("tool_calls", calls=tuple(_call(call) for call in calls))
    if outputs := message.get("tool_outputs"):
        yield Block("tool_outputs", outputs=tuple(outputs))
    if content and not first:
        yield Block("response", content)


def _block(block: Mapping[str, Any]) -> Block:
    kind = block["type"]
    if kind in ("thoughts", "response"):
        return Block(kind, block["text"])
    if kind == "tool_calls":
        return Block(kind, calls=tuple(_call(call) for call in block["calls"]))
    if kind == "tool_outputs":
        return Block(kind, outputs=tuple(output["output"] for output in block["outputs"]))
    raise ValueError(f"unknown type of block {kind!r}")


def _call(call: Mapping[str, Any]) -> Call:
    called = function(call)
    arguments = called["arguments"]
    if not isinstance(arguments, str):
        arguments = json.dumps(arguments, ensure_ascii=False)
    return Call(called["name"], arguments)
