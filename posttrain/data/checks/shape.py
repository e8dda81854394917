"""What a row must look like to be rendered: its faults, each with the path of its field."""

import json
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from posttrain.data.checks.rows import Content
from posttrain.data.conversation import MEDIA, function

ROLES = ("system", "developer", "user", "assistant", "tool")

Problem = tuple[str, str]
"""Path of a field, and what is wrong there."""


def problems(content: Content) -> Iterator[Problem]:
    """What is wrong with a row, which has messages, prompt and continuation, text or tokens."""
    if "messages" in content:
        yield from _conversation(content)
    elif "prompt" in content or "continuation" in content:
        for key in ("prompt", "continuation"):
            yield from _text(content.get(key), key)
    elif "tokens" in content:
        yield from _tokenised(content)
    elif "text" in content:
        yield from _text(content["text"], "text")
    else:
        told = ", ".join(content) or "none"
        yield "", f"has no messages, prompt, text or tokens; its fields are {told}"


def _conversation(content: Content) -> Iterator[Problem]:
    messages = content["messages"]
    if messages == []:
        yield "messages", "is empty"
    yield from _list(messages, "messages", _message)
    if content.get("text") is not None:
        yield from _text(content["text"], "text")
    if not isinstance(content.get("deliberation"), bool):
        yield "deliberation", f"must be true or false, is {_shown(content.get('deliberation'))}"
    yield from _list(content.get("tools"), "tools", _tool)


def _tokenised(content: Content) -> Iterator[Problem]:
    tokens, mask = content["tokens"], content.get("mask")
    yield from _numbers(tokens, "tokens", "a token id", lambda value: value >= 0)
    if mask is not None:
        yield from _numbers(mask, "mask", "0 or 1", lambda value: value in (0, 1))
    if isinstance(tokens, list) and isinstance(mask, list) and len(tokens) != len(mask):
        yield "mask", f"has {len(mask)} values for {len(tokens)} tokens"


def _message(message: Any, path: str) -> Iterator[Problem]:
    if not isinstance(message, Mapping):
        yield path, f"must be an object, is {_shown(message)}"
        return
    role, content = message.get("role"), message.get("content")
    if role not in ROLES:
        yield f"{path}.role", f"unknown role {_shown(role)}; known: {', '.join(ROLES)}"
    elif role == "assistant":
        yield from _assistant(message, path)
    elif role == "user" and isinstance(content, Mapping):
        yield from _list(content.get("parts"), f"{path}.content.parts", _part)
    elif role == "user" and isinstance(content, list):
        yield from _list(content, f"{path}.content", _part)
    elif role in ("system", "developer") and isinstance(content, Mapping):
        yield from _text(content.get("text"), f"{path}.content.text")
    else:
        yield from _text(content, f"{path}.content")


def _assistant(message: Mapping[str, Any], path: str) -> Iterator[Problem]:
    optional = {"content": _text, "thoughts": _text, "tool_calls": _calls, "tool_outputs": _outputs}
    if isinstance(message.get("content"), Mapping):
        del optional["content"]
        yield from _list(message["content"].get("blocks"), f"{path}.content.blocks", _block)
    for key, check in optional.items():
        if message.get(key) is not None:
            yield from check(message[key], f"{path}.{key}")


def _part(part: Any, path: str) -> Iterator[Problem]:
    kind = part.get("type") if isinstance(part, Mapping) else None
    if kind == "text":
        yield from _text(part.get("text"), f"{path}.text")
    elif not isinstance(kind, str) or kind not in MEDIA:
        yield f"{path}.type", f"unknown type {_shown(kind)}; known: text, {', '.join(MEDIA)}"


def _block(block: Any, path: str) -> Iterator[Problem]:
    kind = block.get("type") if isinstance(block, Mapping) else None
    if not isinstance(kind, str) or kind not in _BLOCKS:
        yield f"{path}.type", f"unknown type {_shown(kind)}; known: {', '.join(_BLOCKS)}"
        return
    key, check = _BLOCKS[kind]
    yield from check(block.get(key), f"{path}.{key}")


def _calls(calls: Any, path: str) -> Iterator[Problem]:
    yield from _list(calls, path, _call)


def _outputs(outputs: Any, path: str) -> Iterator[Problem]:
    yield from _list(outputs, path, _text)


def _given(outputs: Any, path: str) -> Iterator[Problem]:
    yield from _list(outputs, path, _output)


def _output(output: Any, path: str) -> Iterator[Problem]:
    text = output.get("output") if isinstance(output, Mapping) else None
    yield from _text(text, f"{path}.output")


def _call(call: Any, path: str) -> Iterator[Problem]:
    if not isinstance(call, Mapping):
        yield path, f"must be an object, is {_shown(call)}"
        return
    called = function(call)
    path = path if called is call else f"{path}.function"
    yield from _text(called.get("name"), f"{path}.name")
    if "arguments" not in called:
        yield f"{path}.arguments", "is missing"
    elif isinstance(called["arguments"], str):
        yield from _json(called["arguments"], f"{path}.arguments")


def _tool(tool: Any, path: str) -> Iterator[Problem]:
    if not isinstance(tool, Mapping):
        yield path, f"must be an object, is {_shown(tool)}"
        return
    declared = function(tool)
    path = path if declared is tool else f"{path}.function"
    for key in ("name", "description"):
        yield from _text(declared.get(key), f"{path}.{key}")
    if declared.get("parameters", {}) != {}:
        yield from _schema(declared["parameters"], f"{path}.parameters")


def _schema(schema: Any, path: str) -> Iterator[Problem]:
    """Of a tool that has parameters; a mapping of names to types would be taken for one without."""
    if not isinstance(schema, Mapping):
        yield path, f"must be an object, is {_shown(schema)}"
        return
    properties = schema.get("properties")
    if properties is None and schema.get("type") != "object":
        yield path, "must be a JSON schema with `properties`"
    elif properties is not None and not isinstance(properties, Mapping):
        yield f"{path}.properties", f"must be an object, is {_shown(properties)}"
    else:
        for name, spec in (properties or {}).items():
            if not isinstance(spec, Mapping):
                yield f"{path}.properties.{name}", f"must be a JSON schema, is {_shown(spec)}"


def _json(text: str, path: str) -> Iterator[Problem]:
    try:
        json.loads(text)
    except (ValueError, RecursionError) as broken:
        yield path, f"is not JSON: {broken}"


def _list(
    value: Any, path: str, each: Callable[[Any, str], Iterator[Problem]]
) -> Iterator[Problem]:
    if not isinstance(value, list):
        yield path, f"must be a list, is {_shown(value)}"
        return
    for index, inner in enumerate(value):
        yield from each(inner, f"{path}[{index}]")


def _text(value: Any, path: str) -> Iterator[Problem]:
    if not isinstance(value, str):
        yield path, f"must be text, is {_shown(value)}"


def _numbers(value: Any, path: str, wanted: str, sound: Callable[[int], bool]) -> Iterator[Problem]:
    """The first that is no whole number or not sound: a row has up to a million of them.

    What is sound is an interval, so that of sound rows the extremes alone are looked at.
    """
    if not isinstance(value, list):
        yield path, f"must be a list, is {_shown(value)}"
        return
    whole = set(map(type, value)) <= {int}
    if not value or (whole and sound(min(value)) and sound(max(value))):
        return
    for index, inner in enumerate(value):
        if type(inner) is not int or not sound(inner):
            yield f"{path}[{index}]", f"must be {wanted}, is {_shown(inner)}"
            return


def _shown(value: Any) -> str:
    return "missing" if value is None else repr(value)[:60]


_BLOCKS: Mapping[str, tuple[str, Callable[[Any, str], Iterator[Problem]]]] = {
    "thoughts": ("text", _text), "response": ("text", _text),
    "tool_calls": ("calls", _calls), "tool_outputs": ("outputs", _given),
}  # fmt: skip
"""Type of an assistant's block -> the field it has, and what that must be."""
