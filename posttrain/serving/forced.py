"""Tool calls that a request demands, by `tool_choice`: as JSON that the generation must match."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from posttrain.data.turn import Decode, named_call
from posttrain.serving.reading import Called
from rewards.calls import calls as array_of_calls

_ANY: Mapping[str, Any] = {"type": "object"}


@dataclass(frozen=True)
class Demand:
    """The tools of which one must be called: (name, JSON schema of its arguments)."""

    tools: Sequence[tuple[str, Mapping[str, Any]]]
    several: bool


def forced(request: Any) -> Demand | None:
    """What an OpenAI chat request demands, if it does."""
    choice = request.tool_choice
    tools = [(tool.function.name, tool.function.parameters or _ANY) for tool in request.tools or ()]
    if choice == "required":
        return Demand(tools, several=True)
    name = getattr(getattr(choice, "function", None), "name", None)
    if name is None:
        return None
    return Demand([tool for tool in tools if tool[0] == name], several=False)


def schema(demand: Demand, decode: Decode) -> Mapping[str, Any]:
    """JSON schema of the text that `decode` reads as calls."""
    calls = [_call(name, parameters, decode) for name, parameters in demand.tools]
    one = calls[0] if len(calls) == 1 else {"anyOf": calls}
    if decode is named_call:
        return one
    most = {} if demand.several else {"maxItems": 1}
    return {"type": "array", "items": one, "minItems": 1, **most}


def _call(name: str, parameters: Mapping[str, Any], decode: Decode) -> Mapping[str, Any]:
    if decode is array_of_calls:
        properties: dict[str, Any] = {name: parameters}
    else:
        properties = {"name": {"const": name}, "arguments": parameters}
    return {
        "type": "object", "properties": properties, "required": list(properties),
        "additionalProperties": False,
    }  # fmt: skip


def read(text: str, decode: Decode) -> tuple[str | None, list[Called]]:
    """Content and calls of a response that was to match: one that was cut off is content."""
    try:
        calls = decode(text)
    except (ValueError, RecursionError):
        return text, []
    return None, [
        Called(call.name, json.dumps(call.arguments, ensure_ascii=False)) for call in calls
    ]
