"""An assistant turn as parsed: thoughts, tool calls and content, and what is wrong with it.

Always holds: a turn with an `error` answers nothing, whatever else it contains; one without is
complete, or waits for the outputs of its calls.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from rewards.calls import ANSWER_TOOL as ANSWER_TOOL
from rewards.calls import Call, decoded
from rewards.calls import answers as given
from rewards.calls import calls as called

ToolCall = Call
array_of_calls = called

_CLOSES = {
    "<|inner_prefix|>": "<|inner_suffix|>",
    "<|tools_prefix|>": "<|tools_suffix|>",
    "<|tool_output_start|>": "<|tool_output_end|>",
}
_TOOLS = ("<|tools_prefix|>", "<|tool_output_start|>")


class Span(NamedTuple):
    """A control token by name, or (`control` None) the text between two of them."""

    control: str | None
    text: str


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
    if turn.error or len(calls) != 1:
        return None
    return given(calls[0].arguments) or None


Decode = Callable[[str], Sequence[ToolCall]]
"""The calls in a span's text; ValueError says what is wrong with it."""


def assemble(
    spans: Sequence[Span], decode: Decode | None = None, *, one_each: bool = False
) -> AssistantTurn:
    """The turn made of `spans`, read up to its end marker; nothing may follow that.

    Tools may be called within thinking, but not the answer tool. `decode` reads a span of calls:
    by default the JSON array of the Apertus format. With `one_each` a span holds one call, and
    parallel calls are as many spans.
    """
    reader = _Reader(decode or array_of_calls, one_each)
    for number, span in enumerate(spans, 1):
        if reader.take(span):
            if reader.complete and number < len(spans):
                reader.error = "tokens after the end of the turn"
            return reader.turn()
    reader.end()
    return reader.turn()


class _Reader:
    """Reads a turn span by span until it ends or breaks the format."""

    def __init__(self, decode: Decode, one_each: bool) -> None:
        self._decode = decode
        self._repeats = ("<|tools_prefix|>",) if one_each else ()
        self._texts: dict[str, str] = {}
        self._calls: list[ToolCall] = []
        self._open: list[str] = []
        self._last: str | None = None
        self.complete = False
        self.error: str | None = None

    def turn(self) -> AssistantTurn:
        """What was read; a turn with an error has no calls."""
        calls = () if self.error else tuple(self._calls)
        thoughts, content = self._texts.get("<|inner_prefix|>"), self._texts.get("")
        return AssistantTurn(thoughts, calls, content, self.complete, self.error)

    def take(self, span: Span) -> bool:
        """Read one span; whether it was the last."""
        inner = self._open[-1] if self._open else ""
        if span.control is None:
            self._say(inner, span.text)
        elif inner and span.control == _CLOSES[inner]:
            self._close(self._open.pop())
        elif span.control == "<|assistant_end|>" and not inner:
            self.complete = True
        elif inner and not (inner == "<|inner_prefix|>" and span.control in _TOOLS):
            self.error = f"{inner} is not closed"
        elif span.control not in _CLOSES:
            self.error = f"{span.control} out of place"
        elif span.control == self._last and span.control not in self._repeats:
            self.error = f"{span.control} again"
        else:
            self._open.append(span.control)
            self._texts.setdefault(span.control, "")
        return self.complete or self.error is not None

    def end(self) -> None:
        """No span is left: only a turn that waits for the outputs of its calls may stay open."""
        waits = self._last == "<|tools_prefix|>" and self._open in ([], ["<|inner_prefix|>"])
        if not waits or self._calls[-1].name == ANSWER_TOOL:
            self.error = "the turn does not end"

    def _say(self, inner: str, text: str) -> None:
        if inner in _TOOLS:
            self._texts[inner] = text
        else:
            self._texts[inner] = self._texts.get(inner, "") + text
            self._last = None

    def _close(self, opening: str) -> None:
        self._last = opening
        if opening != "<|tools_prefix|>":
            return
        try:
            calls = self._decode(self._texts.pop(opening))
        except (ValueError, RecursionError) as fault:
            self.error = f"tool calls: {fault}"
            return
        if self._open and any(call.name == ANSWER_TOOL for call in calls):
            self.error = f"{ANSWER_TOOL} within thinking"
        self._calls += calls


def named_call(text: str) -> tuple[ToolCall, ...]:
    """The call in a JSON object with `name` and `arguments`."""
    value = decoded(text)
    if not isinstance(value, dict) or value.keys() != {"name", "arguments"}:
        raise ValueError("not a JSON object with name and arguments")
    if not isinstance(value["name"], str):
        raise ValueError("the name of a call must be text")
    return (ToolCall(value["name"], value["arguments"]),)
