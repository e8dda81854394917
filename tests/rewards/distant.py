"""A remote verifier that does as the response says; served by tests as `distant=<this module>`."""

import asyncio
import os
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager

from pydantic import TypeAdapter

from rewards.schema import Item, Verdict, scored
from rewards.verifiers import Canary, Unavailable

RUNS = "remote"
GOLD = PARAMETERS = TypeAdapter(None)
DISTRIBUTIONS = ()

DOWN = "DISTANT_DOWN"
"""Environment variable with a path; while something is there, nobody answers."""

_busy: list[int] = []


@asynccontextmanager
async def connected(
    *, probing: bool = False
) -> AsyncIterator[Callable[[Item], Awaitable[Verdict]]]:
    """It answers until the end."""
    yield _verify


async def _verify(item: Item) -> Verdict:
    word = item.response or ""
    _busy.append(1)
    try:
        if word == "unavailable" or os.path.exists(os.environ.get(DOWN, "")):
            raise Unavailable("sandbox_down", "nobody answers")
        if word == "raise":
            raise RuntimeError("a bug")
        await asyncio.sleep(3600 if word == "hang" else 0.05 if word == "count" else 0)
        return scored(item, 0.0 if word == "wrong" else 1.0, feedback=str(len(_busy)))
    finally:
        _busy.pop()


CANARIES = [Canary(item=Item(id="right", verifier="distant", response="right"), score=1.0)]
