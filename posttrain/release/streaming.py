"""Streaming: a stream says what the whole answer says, in pieces, and ends as it must."""

from collections.abc import Sequence
from typing import Any

from posttrain.release.check import Check, Skips, expect, short
from posttrain.release.core import stop_text
from posttrain.release.endpoint import Streamed
from posttrain.release.probe import Probe, Reply, assembled, user

_QUESTION = [user("Describe a lake in winter.")]


def _stream(probe: Probe) -> Streamed:
    return probe.once("stream", lambda: probe.streamed(_QUESTION))


def _whole(probe: Probe) -> Reply:
    return probe.once("streamed question", lambda: probe.chat(_QUESTION))


def _choices(stream: Streamed) -> Sequence[Any]:
    return [choice for event in stream.events for choice in event.get("choices") or ()]


def chunks(probe: Probe) -> str:
    """Text comes in pieces, not at once."""
    told = [c for c in _choices(_stream(probe)) if any((c.get("delta") or {}).get(key)
            for key in ("content", "reasoning", "reasoning_content"))]  # fmt: skip
    tokens = _whole(probe).usage.get("completion_tokens", 0)
    if tokens < 4:
        raise Skips(f"the response has {tokens} tokens")
    expect(len(told) >= 2, f"{tokens} tokens came in {len(told)} pieces")
    return f"{tokens} tokens in {len(told)} pieces"


def finish(probe: Probe) -> str:
    """The last piece says why it is the last, no other does."""
    reasons = [choice.get("finish_reason") for choice in _choices(_stream(probe))]
    expect(reasons and reasons[-1], "the last piece has no finish_reason")
    early = [reason for reason in reasons[:-1] if reason]
    expect(not early, f"finish_reason {short(early)} before the end")
    wanted = _whole(probe).finish
    expect(reasons[-1] == wanted, f"finish_reason {reasons[-1]!r}, of the whole answer {wanted!r}")
    return str(reasons[-1])


def closed(probe: Probe) -> str:
    """The stream is closed by [DONE]."""
    expect(_stream(probe).done, "the stream breaks off without [DONE]")
    return "[DONE]"


def events(probe: Probe) -> str:
    """All events are of one answer."""
    stream = _stream(probe)
    ids = {event.get("id") for event in stream.events}
    kinds = {event.get("object") for event in stream.events}
    models = {event.get("model") for event in stream.events}
    expect(
        len(ids) == 1 and None not in ids, f"the events have the ids {short(sorted(map(str, ids)))}"
    )
    expect(kinds == {"chat.completion.chunk"}, f"the events are {short(sorted(map(str, kinds)))}")
    expect(models == {probe.endpoint.model}, f"the events are of {short(sorted(map(str, models)))}")
    return f"{len(stream.events)} events"


def role(probe: Probe) -> str:
    """The first piece says who speaks."""
    first = _choices(_stream(probe))[0].get("delta") or {}
    expect(first.get("role") == "assistant", f"the first piece has the role {first.get('role')!r}")
    return "assistant"


def same(probe: Probe) -> str:
    """The pieces together are the whole answer."""
    streamed, whole = assembled(_stream(probe)), _whole(probe)
    for channel in ("content", "reasoning"):
        pieces, at_once = getattr(streamed, channel), getattr(whole, channel)
        expect(pieces == at_once, f"{channel}: {short(pieces)} in pieces, {short(at_once)} at once")
    return f"{len(whole.content)} characters"


def stop(probe: Probe) -> str:
    """A stream ends before the text that it is to stop at."""
    whole = _whole(probe).content
    piece = stop_text(whole)
    if piece is None:
        raise Skips(f"the response is too short to stop within: {short(whole)}")
    found = assembled(probe.streamed(_QUESTION, stop=[piece]))
    wanted = whole[: whole.index(piece)]
    expect(found.content == wanted, f"stop {piece!r} left {short(found.content[-40:])}")
    expect(found.finish == "stop", f"stopped, yet finish_reason is {found.finish!r}")
    return f"ended before {piece!r}"


def usage(probe: Probe) -> str:
    """The tokens are counted at the end, if that was asked for, as for the whole answer."""
    stream = probe.streamed(_QUESTION, stream_options={"include_usage": True})
    told = assembled(stream).usage
    wanted = _whole(probe).usage
    for part in ("prompt_tokens", "completion_tokens", "total_tokens"):
        got, whole = told.get(part), wanted.get(part)
        expect(got == whole, f"{part} is {got} in the stream, {whole} of the whole answer")
    return f"{told.get('total_tokens')} tokens"


CHECKS = (
    Check("stream-chunks", "streaming", chunks),
    Check("stream-finish", "streaming", finish),
    Check("stream-closed", "streaming", closed),
    Check("stream-events", "streaming", events),
    Check("stream-role", "streaming", role),
    Check("stream-is-answer", "streaming", same),
    Check("stream-stop", "streaming", stop),
    Check("stream-usage", "streaming", usage),
)
