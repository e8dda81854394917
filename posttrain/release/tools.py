"""Tools: calls come as calls, whole or streamed, and outputs find their way back.

What a request demands (`tool_choice`) any model can be held to; whether a model calls the right
tool of its own accord is the model's business.
"""

import json
from collections.abc import Mapping, Sequence
from typing import Any

from posttrain.release.check import Check, Skips, Warns, expect, fail, short
from posttrain.release.core import answered_or_refused
from posttrain.release.probe import (
    Probe,
    Reply,
    ToolCall,
    arguments,
    assembled,
    leaked,
    reply,
    user,
)

CITIES = ("Bern", "Paris", "Oslo")
_ASKED = [user("What is the weather in Paris?")]
_ROOM = 200
"""Tokens for a call."""


def tool(name: str, description: str, **parameters: Mapping[str, Any]) -> dict[str, Any]:
    """A tool all of whose parameters are required."""
    schema = {
        "type": "object", "properties": parameters, "required": list(parameters),
        "additionalProperties": False,
    }  # fmt: skip
    function = {"name": name, "description": description, "parameters": schema}
    return {"type": "function", "function": function}


WEATHER = tool(
    "get_weather", "Tells the weather of a city.",
    city={"type": "string", "enum": list(CITIES), "description": "name of the city"},
)  # fmt: skip
TIME = tool(
    "get_time", "Tells the local time of a city.", city={"type": "string", "enum": list(CITIES)}
)
PING = tool("ping", "Tests the connection.")
BOTH = [WEATHER, TIME]


def named(of: Mapping[str, Any]) -> dict[str, Any]:
    """The tool_choice that demands this tool."""
    return {"type": "function", "function": {"name": of["function"]["name"]}}


def _names(tools: Sequence[Mapping[str, Any]]) -> list[str]:
    return [each["function"]["name"] for each in tools]


def _demanded(probe: Probe) -> Reply:
    """A reply with tool_choice required; Warns if the server refuses to demand calls."""
    return probe.once("demanded call", lambda: _demand(probe, BOTH, "required"))


def _one(probe: Probe) -> Reply:
    return probe.once("named call", lambda: _demand(probe, BOTH, named(WEATHER)))


def _demand(probe: Probe, tools: Sequence[Mapping[str, Any]], choice: Any) -> Reply:
    answer = probe.raw(_ASKED, tools=list(tools), tool_choice=choice, max_tokens=_ROOM)
    answered_or_refused(answer.status, answer.told, f"tool_choice {short(choice)}")
    return reply(answer)


def _first(found: Reply) -> ToolCall:
    if not found.calls and found.finish == "length":
        raise Skips(f"no call was finished within {_ROOM} tokens: {short(found.content)}")
    expect(found.calls, f"a call was demanded, and the response is {short(found.content)}")
    return found.calls[0]


def required(probe: Probe) -> str:
    """With tool_choice required, a tool is called that was declared."""
    call = _first(_demanded(probe))
    arguments(call)
    expect(call.name in _names(BOTH), f"it calls {call.name!r}, which was not declared")
    return f"calls {call.name}"


def by_name(probe: Probe) -> str:
    """With a tool named in tool_choice, that one is called."""
    calls = {call.name for call in (_first(_one(probe)), *_one(probe).calls)}
    expect(calls == {"get_weather"}, f"get_weather was demanded, it calls {sorted(calls)}")
    return "calls get_weather"


def schema(probe: Probe) -> str:
    """The arguments of a demanded call are as its schema says."""
    given = arguments(_first(_one(probe)))
    expect(set(given) == {"city"}, f"the arguments are {short(given)}, must be {{city}}")
    expect(given["city"] in CITIES, f"city is {given['city']!r}, must be one of {CITIES}")
    return json.dumps(given)


def no_arguments(probe: Probe) -> str:
    """A tool without parameters is called with an empty object."""
    given = arguments(_first(_demand(probe, [PING], named(PING))))
    expect(given == {}, f"ping takes nothing, and is given {short(given)}")
    return "{}"


def ids(probe: Probe) -> str:
    """Each call has an id of its own, in each answer a new one."""
    found = [*_demanded(probe).calls, *_one(probe).calls]
    if not found:
        raise Skips("there was no call")
    given = [call.id for call in found]
    expect(all(given) and len(set(given)) == len(given), f"the ids of calls are {short(given)}")
    return f"{len(given)} ids"


def finish(probe: Probe) -> str:
    """An answer that calls says so in its finish_reason."""
    found = _demanded(probe)
    _first(found)
    expect(found.finish == "tool_calls", f"it calls, and finish_reason is {found.finish!r}")
    return "tool_calls"


def no_scaffold(probe: Probe) -> str:
    """Beside a call nothing of its notation is left in what is read."""
    found = _one(probe)
    _first(found)
    told = leaked(found.content, found.reasoning)
    expect(not told, f"the content beside a call has {', '.join(told)}")
    expect('"get_weather"' not in found.content, f"the call is read too: {short(found.content)}")
    return "none"


def forbidden(probe: Probe) -> str:
    """With tool_choice none, nothing is called."""
    found = probe.chat(_ASKED, tools=BOTH, tool_choice="none")
    expect(not found.calls, f"calls were forbidden, it calls {short(found.calls[0:1])}")
    told = leaked(found.content)
    expect(not told, f"calls were forbidden, and the content has {', '.join(told)}")
    return "no call"


def undeclared(probe: Probe) -> str:
    """Without tools, nothing is called."""
    found = probe.chat(_ASKED)
    expect(not found.calls, f"there is no tool, it calls {short(found.calls[0:1])}")
    return "no call"


def unknown_choice(probe: Probe) -> str:
    """A demand for a tool that was not declared is refused."""
    answer = probe.raw(_ASKED, tools=[WEATHER], tool_choice=named(PING))
    expect(400 <= answer.status < 500, f"ping was not declared, yet {answer.told}")
    return answer.told


def streamed(probe: Probe) -> str:
    """A streamed call is the one of the whole answer, and its arguments are whole JSON."""
    whole = _first(_one(probe))
    stream = probe.streamed(_ASKED, tools=BOTH, tool_choice=named(WEATHER), max_tokens=_ROOM)
    found = assembled(stream)
    expect(found.calls, f"the stream has no call, but {short(found.content)}")
    given = found.calls[0]
    same = (given.name, arguments(given)) == (whole.name, arguments(whole))
    expect(same, f"streamed {given.name}({given.arguments}), whole {whole.name}({whole.arguments})")
    expect(given.id, "the streamed call has no id")
    expect(stream.done, "the stream breaks off without [DONE]")
    return f"{given.name}({given.arguments})"


def shown(probe: Probe) -> str:
    """Declared tools reach the model."""
    plain, told = probe.tokenized(_ASKED), probe.tokenized(_ASKED, tools=BOTH)
    expect(told.ids != plain.ids, "a prompt with tools is the same as one without")
    text = probe.text(told.ids)
    lacking = [name for name in _names(BOTH) if name not in text]
    expect(not lacking, f"the prompt does not tell of {', '.join(lacking)}")
    return f"{len(told.ids) - len(plain.ids)} tokens tell of 2 tools"


def round_trip() -> list[dict[str, Any]]:
    """A conversation in which the weather was asked for and told."""
    function = {"name": "get_weather", "arguments": '{"city": "Paris"}'}
    call = {"id": "call-1", "type": "function", "function": function}
    return [
        *_ASKED, {"role": "assistant", "content": None, "tool_calls": [call]},
        {"role": "tool", "tool_call_id": "call-1", "content": '{"sky": "hail", "degrees": 7}'},
    ]  # fmt: skip


def outputs(probe: Probe) -> str:
    """What a tool put out is shown to the model, after the call, and is answered."""
    found = probe.raw(round_trip(), tools=BOTH)
    expect(found.status == 200, f"a conversation with a tool's output: {found.told}")
    text = probe.text(probe.tokenized(round_trip(), tools=BOTH).ids)
    places = [text.rfind(part) for part in ("weather in Paris", '{"city": "Paris"}', '"hail"')]
    expect(-1 not in places, f"the prompt lacks a part of it: {short(text[-80:])}")
    expect(places == sorted(places), "the prompt has question, call and output in another order")
    return "question, call, output"


def single(probe: Probe) -> str:
    """Asked for the weather, the model asks the tool for it."""
    found = probe.chat(_ASKED, tools=BOTH, max_tokens=_ROOM)
    if len(found.calls) != 1:
        fail(f"{len(found.calls)} calls, and {short(found.content)}")
    given = (found.calls[0].name, arguments(found.calls[0]))
    expect(given == ("get_weather", {"city": "Paris"}), f"it calls {short(given)}")
    expect(found.finish == "tool_calls", f"it calls, and finish_reason is {found.finish!r}")
    return "get_weather(Paris)"


def parallel(probe: Probe) -> str:
    """Asked for the weather of two cities, the model asks for both at once."""
    asked = [user("Compare the weather in Bern with that in Oslo.")]
    found = probe.chat(asked, tools=BOTH, max_tokens=_ROOM)
    cities = sorted(str(arguments(c).get("city")) for c in found.calls if c.name == "get_weather")
    expect(cities == ["Bern", "Oslo"], f"it asks for the weather of {cities}")
    return "Bern and Oslo"


def told(probe: Probe) -> str:
    """What the tool put out is what the model answers with."""
    found = probe.chat(round_trip(), tools=BOTH, max_tokens=_ROOM)
    expect("hail" in found.content.lower() or "7" in found.content, short(found.content))
    return short(found.content)


def follow_up(probe: Probe) -> str:
    """Asked for more after an answer, the model calls again."""
    more = [*round_trip(), {"role": "assistant", "content": "Hail, 7 degrees."}]
    found = probe.chat([*more, user("And in Oslo?")], tools=BOTH, max_tokens=_ROOM)
    given = [(call.name, arguments(call)) for call in found.calls]
    expect(given == [("get_weather", {"city": "Oslo"})], f"it calls {short(given)}")
    return "get_weather(Oslo)"


def unneeded(probe: Probe) -> str:
    """Asked what no tool helps with, the model answers itself."""
    found = probe.chat([user("What is 2 + 2?")], tools=BOTH)
    if found.calls:
        raise Warns(f"it calls {short(found.calls[0])} to add 2 and 2")
    return short(found.content)


CHECKS = (
    Check("tool-required", "tools", required),
    Check("tool-named", "tools", by_name),
    Check("tool-schema", "tools", schema),
    Check("tool-empty-arguments", "tools", no_arguments),
    Check("tool-call-ids", "tools", ids),
    Check("tool-finish", "tools", finish),
    Check("tool-no-scaffold", "tools", no_scaffold),
    Check("tool-choice-none", "tools", forbidden),
    Check("tool-undeclared", "tools", undeclared),
    Check("tool-unknown-choice", "tools", unknown_choice),
    Check("tool-streamed", "tools", streamed),
    Check("tool-shown", "tools", shown),
    Check("tool-output", "tools", outputs),
    Check("tool-single", "tools", single, "model"),
    Check("tool-parallel", "tools", parallel, "model"),
    Check("tool-told", "tools", told, "model"),
    Check("tool-follow-up", "tools", follow_up, "model"),
    Check("tool-unneeded", "tools", unneeded, "model"),
)
