"""Performance, to be known: no figure fails here."""

import time

from posttrain.release.check import Check
from posttrain.release.probe import Probe, assembled, user

_QUESTION = [user("Write about rivers.")]


def speed(probe: Probe) -> str:
    """Time to the whole answer, and tokens a second, of one request alone."""
    started = time.monotonic()
    found = assembled(probe.streamed(_QUESTION, stream_options={"include_usage": True}))
    seconds = time.monotonic() - started
    tokens = found.usage.get("completion_tokens") or 0
    return f"{tokens} tokens in {seconds:.2f} s, {tokens / max(seconds, 1e-9):.1f} a second"


CHECKS = (Check("speed", "performance", speed),)
