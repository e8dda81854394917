"""The raw text of one assistant turn, read as what the model said outside its deliberation.

Only for callers without token ids: a marker quoted in text cannot be told from a real one, so a
doubtful turn is `malformed` and nothing in it counts. Markers as in facts.md section 3.
"""

import json
import re
from dataclasses import dataclass, field

from rewards.calls import Call as Call
from rewards.calls import calls

_MARKER = re.compile(
    r"<(?:\|(?P<name>inner_prefix|inner_suffix|tools_prefix|tools_suffix|tool_output_start"
    r"|tool_output_end|assistant_end)\|"
    r"|(?!(?<=<<)/?think>>)(?P<think>/?think))>"  # <<think>> is a title.
)
_THINK = {"think": "inner_prefix", "/think": "inner_suffix"}
_BRACKET = re.compile(r"[\[\]]")
_USUAL = re.compile(
    r"(?:<\|inner_prefix\|>[^<]*<\|inner_suffix\|>)?(?P<text>[^<]*)<\|tools_prefix\|>"
    r'\[\{"(?P<name>\w+)": ?\{"(?P<argument>\w+)": ?\["(?P<value>[^<"\\\x00-\x1f]*)"\]\}\}\]'
    r"<\|tools_suffix\|>(?:<\|assistant_end\|>)?"
)
"""A turn without surprises, one call with one list of one text, which need not be decoded."""

_OUTPUT = re.compile(r"\s*\[")
_OUTPUT_END = "<|tool_output_end|>"


@dataclass
class Turn:
    """`text` is what the model said besides calls; `malformed` says why its calls do not count."""

    text: str = ""
    calls: list[Call] = field(default_factory=list)
    malformed: str | None = None


def read_turn(response: str, *, own_output: bool = False) -> Turn:
    """Read `response` up to its end marker. Linear in its length, and never raises.

    `own_output`: no environment took part, so what stands after a tool block is the model's text,
    between markers of tool output or in brackets too.
    """
    if (usual := _USUAL.fullmatch(response)) is None:
        return _read_step_by_step(response, own_output=own_output)
    text, name, argument, value = usual.groups()
    return Turn(text, [Call(name, {argument: [value]})])


def _read_step_by_step(response: str, *, own_output: bool = False) -> Turn:
    turn, texts, at = Turn(), list[str](), 0
    while (marker := _MARKER.search(response, at)) is not None:
        texts.append(response[at : marker.start()])
        name = marker.group("name") or _THINK[marker.group("think")]
        if name == "assistant_end":
            break
        if name == "inner_suffix":
            texts.clear()
        at = _step(turn, name, response, marker.end(), own_output=own_output)
    else:
        texts.append(response[at:])
    turn.text = "".join(texts)
    return turn


def _step(turn: Turn, name: str, response: str, at: int, *, own_output: bool) -> int:
    """Take in what follows the marker `name`; returns where reading goes on."""
    if name == "inner_prefix":
        return _end_of_deliberation(response, at)
    if name == "inner_suffix":
        # The prompt had opened the deliberation: all so far belonged to it.
        turn.calls, turn.malformed = [], None
        return at
    if name.startswith("tool_output"):
        return at if own_output else _end_of_output(turn, name, response, at)
    if name == "tools_suffix":
        turn.malformed = "a tool block ends that was not begun"
        return at
    end = _block(turn, response, at)
    return end if own_output else _after_output(response, end)


def _end_of_output(turn: Turn, name: str, response: str, at: int) -> int:
    """Where the tools' output ends that is marked, as since version 1.5 of the format."""
    end = response.find(_OUTPUT_END, at)
    if name == "tool_output_end" or end < 0:
        turn.malformed = "a tool output is not between its markers"
        return at if name == "tool_output_end" else len(response)
    return end + len(_OUTPUT_END)


def _end_of_deliberation(response: str, at: int) -> int:
    for marker in _MARKER.finditer(response, at):
        if (marker.group("name") or _THINK[marker.group("think")]) == "inner_suffix":
            return marker.end()
    return len(response)


def _block(turn: Turn, response: str, at: int) -> int:
    end = response.find("<|tools_suffix|>", at)
    if end < 0:
        turn.malformed = "the tool block is not closed"
        return len(response)
    _take_calls(turn, response[at:end])
    return end + len("<|tools_suffix|>")


def _take_calls(turn: Turn, block: str) -> None:
    try:
        turn.calls += calls(block)
    except (ValueError, RecursionError) as fault:
        turn.malformed = f"the tool block: {fault}"


def _after_output(response: str, at: int) -> int:
    """Where the tools' output, an unmarked `[...]` after the block, ends.

    What stands in it is not the model's. If it is not JSON and holds a marker, nobody can say
    where it ends, and the rest of the turn does not count.
    """
    if (opening := _OUTPUT.match(response, at)) is None:
        return at
    try:
        return json.JSONDecoder().raw_decode(response, opening.end() - 1)[1]
    except (ValueError, RecursionError):
        end = _closing(response, opening.end())
    return len(response) if _MARKER.search(response, opening.end(), end) else end


def _closing(response: str, at: int) -> int:
    depth = 1
    for bracket in _BRACKET.finditer(response, at):
        depth += 1 if bracket.group() == "[" else -1
        if not depth:
            return bracket.end()
    return len(response)
