"""What a row must look like to be rendered: its faults, each with the path of its field."""

from collections.abc import Callable, Iterator, Mapping
from typing import Any

from posttrain.data.checks.rows import Content

ROLES = ("system", "developer", "user", "assistant")

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
    yield from _numbers(mask, "mask", "0 or 1", lambda value: value in (0, 1))
    if isinstance(tokens, list) and isinstance(mask, list) and len(tokens) != len(mask):
        yield "mask", f"has {len(mask)} values for {len(tokens)} tokens"


def _message(message: Any, path: str) -> Iterator[Problem]:
    if not isinstance(message, Mapping):
        yield path, f"must be an object, is {_shown(message)}"
        return
    role = message.get("role")
    if role not in ROLES:
        yield f"{path}.role", f"unknown role {_shown(role)}; known: {', '.join(ROLES)}"
    elif role == "assistant":
        yield from _assistant(message, path)
    else:
        yield from _text(message.get("content"), f"{path}.content")


def _assistant(message: Mapping[str, Any], path: str) -> Iterator[Problem]:
    optional = {"content": _text, "thoughts": _text, "tool_calls": _calls, "tool_outputs": _outputs}
    for key, check in optional.items():
        if message.get(key) is not None:
            yield from check(message[key], f"{path}.{key}")


def _calls(calls: Any, path: str) -> Iterator[Problem]:
    yield from _list(calls, path, _call)


def _outputs(outputs: Any, path: str) -> Iterator[Problem]:
    yield from _list(outputs, path, _text)


def _call(call: Any, path: str) -> Iterator[Problem]:
    if not isinstance(call, Mapping):
        yield path, f"must be an object, is {_shown(call)}"
        return
    yield from _text(call.get("name"), f"{path}.name")
    if "arguments" not in call:
        yield f"{path}.arguments", "is missing"


def _tool(tool: Any, path: str) -> Iterator[Problem]:
    if not isinstance(tool, Mapping):
        yield path, f"must be an object, is {_shown(tool)}"
        return
    for key in ("name", "description"):
        yield from _text(tool.get(key), f"{path}.{key}")
    if not isinstance(tool.get("parameters"), Mapping):
        yield f"{path}.parameters", f"must be an object, is {_shown(tool.get('parameters'))}"


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
    """The first that is no whole number or not sound: a row has up to a million of them."""
    if not isinstance(value, list):
        yield path, f"must be a list, is {_shown(value)}"
        return
    for index, inner in enumerate(value):
        if type(inner) is not int or not sound(inner):
            yield f"{path}[{index}]", f"must be {wanted}, is {_shown(inner)}"
            return


def _shown(value: Any) -> str:
    return "missing" if value is None else repr(value)[:60]
