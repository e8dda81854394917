"""The reasoning channel: thoughts come apart from the answer, whole or streamed.

Where the template can open the thoughts in the prompt, any model thinks, and the server can be
held to tell it apart; whether a model thinks of its own accord is the model's business.
"""

from typing import Any

from posttrain.release.check import Check, Skips, expect, fail, short
from posttrain.release.endpoint import Streamed
from posttrain.release.probe import Probe, Reply, assembled, leaked, user
from posttrain.release.tools import BOTH, WEATHER, named

_ASKED = [user("A snail climbs 3 m a day and slips 2 m a night. When is it 10 m up?")]
_ROOM = 96
_ENOUGH = 1024


def _settings(probe: Probe) -> dict[str, Any]:
    return {**probe.thinking(), "max_tokens": _ROOM}


def _opened(probe: Probe) -> Reply:
    """A reply to a prompt that has opened the thoughts."""
    settings = _settings(probe)
    if not settings["chat_template_kwargs"].get("force_thinking"):
        raise Skips("the template does not open the thoughts in the prompt")
    return probe.once("opened thoughts", lambda: probe.chat(_ASKED, **settings))


def _stream(probe: Probe) -> Streamed:
    _opened(probe)
    return probe.once("thought stream", lambda: probe.streamed(_ASKED, **_settings(probe)))


def wired(probe: Probe) -> str:
    """Thoughts come in a channel of their own."""
    found = _opened(probe)
    if not found.reasoning and not found.content:
        raise Skips("the response is empty")
    expect(found.reasoning, f"the thoughts are read as the answer: {short(found.content)}")
    return f"{len(found.reasoning)} characters"


def clean(probe: Probe) -> str:
    """Neither channel has the marks between them."""
    found = _opened(probe)
    for channel, text in (("answer", found.content), ("reasoning", found.reasoning)):
        told = leaked(text)
        expect(not told, f"the {channel} has {', '.join(told)}")
    return "no marks"


def cut(probe: Probe) -> str:
    """Thoughts that were cut off are no answer."""
    settings = {**_settings(probe), "max_tokens": 3, "ignore_eos": True}
    _opened(probe)
    found = probe.chat(_ASKED, **settings)
    if found.finish != "length":
        raise Skips("it ended by itself: ignore_eos is not known")
    expect(found.reasoning or not found.content, f"cut thoughts answer {short(found.content)}")
    return "no answer"


def order(probe: Probe) -> str:
    """In a stream thoughts come before the answer."""
    answered = False
    for event in _stream(probe).events:
        for choice in event.get("choices") or ():
            delta = choice.get("delta") or {}
            thought = delta.get("reasoning") or delta.get("reasoning_content")
            expect(not (thought and answered), f"after the answer it thinks {short(thought)}")
            answered |= bool(delta.get("content"))
    return "thoughts first"


def same(probe: Probe) -> str:
    """A stream's thoughts and answer are those of the whole answer."""
    streamed, whole = assembled(_stream(probe)), _opened(probe)
    for channel in ("reasoning", "content"):
        pieces, at_once = getattr(streamed, channel), getattr(whole, channel)
        expect(pieces == at_once, f"{channel}: {short(pieces)} in pieces, {short(at_once)} at once")
    return f"{len(whole.reasoning)} characters of thoughts"


def with_tools(probe: Probe) -> str:
    """A call is demanded of a model that may think, and comes as a call."""
    settings = {**probe.thinking(), "max_tokens": 2 * _ROOM}
    settings["chat_template_kwargs"] = {"enable_thinking": True}
    found = probe.chat(_ASKED, tools=BOTH, tool_choice=named(WEATHER), **settings)
    return _call(found)


def with_tools_streamed(probe: Probe) -> str:
    """The same in a stream."""
    probe.thinking()
    settings: dict[str, Any] = {"chat_template_kwargs": {"enable_thinking": True}}
    stream = probe.streamed(
        _ASKED, tools=BOTH, tool_choice=named(WEATHER), max_tokens=2 * _ROOM, **settings
    )
    return _call(assembled(stream))


def _call(found: Reply) -> str:
    if not found.calls and found.finish == "length":
        raise Skips("no call was finished in time")
    expect(found.calls, f"no call, but {short(found.content)}")
    told = leaked(found.content, found.reasoning)
    expect(not told, f"beside the call there is {', '.join(told)}")
    return f"calls {found.calls[0].name}"


def disabled(probe: Probe) -> str:
    """Thinking is off unless it is asked for, and off where it is declined."""
    probe.thinking()
    plain = probe.tokenized(_ASKED).ids
    declined = probe.tokenized(_ASKED, chat_template_kwargs={"enable_thinking": False}).ids
    expect(plain == declined, "a prompt that asks for nothing is not one that declines thinking")
    return "off"


def quiet(probe: Probe) -> str:
    """Where thinking is declined, the model does not think."""
    probe.thinking()
    found = probe.chat(_ASKED, chat_template_kwargs={"enable_thinking": False})
    expect(not found.reasoning, f"declined, and it thinks {short(found.reasoning)}")
    return "no thoughts"


def resumed(probe: Probe) -> str:
    """A conversation goes on from an answer that was thought through."""
    probe.thinking()
    thought = {"role": "assistant", "content": "On day 8.", "reasoning_content": "Seven days, 7 m."}
    answer = probe.raw([*_ASKED, thought, user("Why?")], max_tokens=8)
    expect(answer.status == 200, f"with earlier thoughts: {answer.told}")
    return "answered"


def _enabled(probe: Probe) -> Reply:
    probe.thinking()
    settings: dict[str, Any] = {"chat_template_kwargs": {"enable_thinking": True}}
    room = probe.room(_ASKED, _ENOUGH)
    return probe.once("enabled thoughts", lambda: probe.chat(_ASKED, max_tokens=room, **settings))


def produced(probe: Probe) -> str:
    """Where thinking is enabled, the model thinks before it answers."""
    found = _enabled(probe)
    expect(found.reasoning.strip(), f"enabled, and it answers at once {short(found.content)}")
    expect(found.content.strip(), f"it thinks, and gives no answer ({found.finish})")
    return f"{len(found.reasoning)} characters of thoughts"


def exact(probe: Probe) -> str:
    """The answer that was thought through is right."""
    found = _enabled(probe)
    if "8" not in found.content:
        fail(f"on day 8 it is up; the answer is {short(found.content)}")
    return short(found.content)


CHECKS = (
    Check("reasoning-wired", "reasoning", wired),
    Check("reasoning-clean", "reasoning", clean),
    Check("reasoning-cut", "reasoning", cut),
    Check("reasoning-stream-order", "reasoning", order),
    Check("reasoning-stream-is-answer", "reasoning", same),
    Check("reasoning-with-tools", "reasoning", with_tools),
    Check("reasoning-with-tools-streamed", "reasoning", with_tools_streamed),
    Check("reasoning-disabled", "reasoning", disabled),
    Check("reasoning-resumed", "reasoning", resumed),
    Check("reasoning-declined", "reasoning", quiet, "model"),
    Check("reasoning-produced", "reasoning", produced, "model"),
    Check("reasoning-exact", "reasoning", exact, "model"),
)
