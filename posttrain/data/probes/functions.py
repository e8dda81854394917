"""Function-calling probes: requests, tools on offer, and the calls that are right.

`single`: one call, several tools on offer. `parallel`: several calls at once. `multi_call`: a call
whose output the next one needs. `irrelevance`: no tool helps, so none is to be called.
`relevance`: a tool is needed, and which arguments it gets is free within its schema.
"""

import random
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Literal, get_args

from pydantic import BaseModel, ConfigDict, Field

from posttrain.data.probes.tools import CALL, LOOKUP, SITUATIONS, TOOLS, UNRELATED, Ask, Tool

Row = dict[str, Any]
Category = Literal["single", "parallel", "multi_call", "irrelevance", "relevance"]

_NAMES = ("Anna", "Ben", "Carla", "David", "Elif", "Farid", "Greta", "Hugo")
_WORDINGS = ("Please {}.", "Could you {}?", "I want you to {}.", "Now {}, please.")


class Functions(BaseModel):
    """`holdout` rows, evenly over `categories`."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    holdout: int = Field(ge=1)
    categories: tuple[Category, ...] = Field(default=get_args(Category), min_length=1)


def rows(seed: int, asked: Functions) -> list[Row]:
    """The rows, the categories in turn."""
    return [_made(seed, number, asked.categories) for number in range(asked.holdout)]


def _made(seed: int, number: int, categories: Sequence[Category]) -> Row:
    category = categories[number % len(categories)]
    row = MAKERS[category](random.Random(f"functions {seed} {category} {number}"))
    return row | {"category": category, "deliberation": False}


def _row(text: str, tools: Sequence[Mapping[str, Any]], steps: Sequence[Mapping[str, Any]]) -> Row:
    return {
        "messages": [{"role": "user", "content": text}], "tools": [*tools], "steps": [*steps],
    }  # fmt: skip


def _offer(draw: random.Random, needed: Sequence[Tool]) -> list[Mapping[str, Any]]:
    """The tools needed and up to three others, shuffled."""
    others = [tool for tool in TOOLS if tool not in needed]
    offered = [*needed, *draw.sample(others, draw.randint(1, 3))]
    draw.shuffle(offered)
    return [tool.declaration for tool in offered]


def _expected(tool: Tool, ask: Ask) -> dict[str, Any]:
    return {"name": tool.name, "arguments": ask.arguments, "optional": ask.optional}


def _single(draw: random.Random) -> Row:
    tool = draw.choice(TOOLS)
    ask = tool.ask(draw)
    step = {"calls": [_expected(tool, ask)], "outputs": [tool.output]}
    return _row(draw.choice(_WORDINGS).format(ask.text), _offer(draw, [tool]), [step])


def _parallel(draw: random.Random) -> Row:
    """Two or three calls, of one tool or of several; no two are equal."""
    several = draw.random() < 0.5
    tools = draw.sample(TOOLS, draw.randint(2, 3)) if several else [draw.choice(TOOLS)] * 2
    asks = [tool.ask(draw) for tool in tools]
    while len({ask.text for ask in asks}) < len(asks):
        asks = [tool.ask(draw) for tool in tools]
    step = {
        "calls": [_expected(*each) for each in zip(tools, asks, strict=True)],
        "outputs": [tool.output for tool in tools],
    }
    text = ", and also ".join(ask.text for ask in asks)
    wording = "At the same time, {}. The one does not depend on the other."
    needed = tools if several else tools[:1]
    return _row(wording.format(text), _offer(draw, needed), [step])


def _multi_call(draw: random.Random) -> Row:
    """Who is to be called must be looked up first."""
    name = draw.choice(_NAMES)
    number = f"0{draw.randint(20, 99)} {draw.randint(100, 999)} {draw.randint(10, 99)}"
    look = {"name": "find_contact", "arguments": {"name": [name]}}
    dial = {"name": "call_number", "arguments": {"number": [number, number.replace(" ", "")]}}
    steps = [
        {"calls": [look], "outputs": [f'{{"number": "{number}"}}']},
        {"calls": [dial], "outputs": ['{"answered": true}']},
    ]
    offered = [LOOKUP, CALL, draw.choice(TOOLS).declaration]
    draw.shuffle(offered)
    return _row(f"Look up the number of {name} and call it.", offered, steps)


def _irrelevance(draw: random.Random) -> Row:
    return _row(draw.choice(UNRELATED), _offer(draw, []), [{"calls": []}])


def _relevance(draw: random.Random) -> Row:
    tool = draw.choice([tool for tool in TOOLS if tool.name in SITUATIONS])
    text = draw.choice(SITUATIONS[tool.name])
    return _row(text, _offer(draw, [tool]), [{"any_of": [tool.name]}])


MAKERS: Mapping[Category, Callable[[random.Random], Row]] = {
    "single": _single,
    "parallel": _parallel,
    "multi_call": _multi_call,
    "irrelevance": _irrelevance,
    "relevance": _relevance,
}
