"""An assistant turn as parsed: thoughts, tool calls and content, and what is wrong with it.

Always holds: a turn with an `error` answers nothing, whatever else it contains.
"""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

ANSWER_TOOL = "display_answers"
"""Tool through which a final answer is given; its call ends the turn (facts.md 2.6)."""

_CLOSES = {
    "<|inner_prefix|>": "<|inner_suffix|>",
    "<|tools_prefix|>": "<|tools_suffix|>",
    "<|tool_output_start|>": "<|tool_output_end|>",
}


class Span(NamedTuple):
    """A control token by name, or (`control` None) the text between two of them."""

    control: str | None
    text: str


@dataclass(frozen=True)
class ToolCall:
    """A call the assistant made, its arguments as decoded from JSON."""

    name: str
    arguments: Any


@dataclass(frozen=True)
class AssistantTurn:
    """`complete` tells if the end marker was reached; `error`, if not None, breaks the format."""

    thoughts: str | None = None
    tool_calls: tuple[ToolCall, ...] = ()
    content: str | None = None
    complete: bool = False
    error: str | None = None


def answers(turn: AssistantTurn) -> list[str] | None:
    """The answers displayed by `turn`; None unless it calls the answer tool once, well-formed."""
    calls = [call for call in turn.tool_calls if call.name == ANSWER_TOOL]
    if turn.error or len(calls) != 1 or not isinstance(calls[0].arguments, Mapping):
        return None
    given = calls[0].arguments.get("answers")
    if calls[0].arguments.keys() != {"answers"} or not isinstance(given, list) or not given:
        return None
    return given if all(isinstance(answer, str) for answer in given) else None


def assemble(spans: Sequence[Span]) -> AssistantTurn:
    """The turn made of `spans`, read up to its end marker; nothing may follow that."""
    fields: dict[str, str] = {}
    rest = list(spans)
    while rest:
        span = rest.pop(0)
        if span.control == "<|assistant_end|>":
            error = "tokens after the end of the turn" if rest else None
            return _turn(fields, complete=True, error=error)
        if span.control is None:
            fields["content"] = fields.get("content", "") + span.text
            continue
        error = _take(span.control, rest, fields)
        if error:
            return _turn(fields, complete=False, error=error)
    return _turn(fields, complete=False, error="the turn does not end")


def _take(opening: str, rest: list[Span], fields: dict[str, str]) -> str | None:
    """Move the span opened by `opening` from `rest` to `fields`; returns what is wrong."""
    closing = _CLOSES.get(opening)
    if closing is None:
        return f"{opening} out of place"
    if opening in fields or "content" in fields:
        return f"{opening} again or after the content"
    fields[opening] = rest.pop(0).text if rest and rest[0].control is None else ""
    if not rest or rest.pop(0).control != closing:
        return f"{opening} is not closed"
    return None


def _turn(fields: Mapping[str, str], *, complete: bool, error: str | None) -> AssistantTurn:
    calls: tuple[ToolCall, ...] = ()
    if "<|tools_prefix|>" in fields and not error:
        try:
            calls = _calls(fields["<|tools_prefix|>"])
        except (ValueError, RecursionError) as fault:
            error = f"tool calls: {fault}"
    return AssistantTurn(
        fields.get("<|inner_prefix|>"), calls, fields.get("content"), complete, error
    )


def _calls(text: str) -> tuple[ToolCall, ...]:
    decoded = json.loads(text)
    if "\\u" in text:
        json.dumps(decoded, ensure_ascii=False).encode()  # ValueError for half a surrogate pair.
    if not isinstance(decoded, list) or not decoded:
        raise ValueError("not a JSON array of calls")
    if not all(isinstance(call, dict) and len(call) == 1 for call in decoded):
        raise ValueError("each call must be an object with one key, the tool's name")
    return tuple(ToolCall(*next(iter(call.items()))) for call in decoded)
