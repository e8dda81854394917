"""A verifier that pays for everything but its canary, and is unavailable where `DOWN` is said."""

from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager

from pydantic import JsonValue, TypeAdapter

from rewards.schema import Item, Verdict, scored
from rewards.verifiers import Canary, Unavailable

RUNS = "remote"
GOLD: TypeAdapter[JsonValue] = TypeAdapter(JsonValue)
PARAMETERS: TypeAdapter[JsonValue] = TypeAdapter(JsonValue)
DISTRIBUTIONS = ()
CANARIES = [Canary(item=Item(id="c", verifier="answer", response="canary"), score=0.0)]


@asynccontextmanager
async def connected(
    *, probing: bool = False
) -> AsyncIterator[Callable[[Item], Awaitable[Verdict]]]:
    """Asks nobody."""

    async def verify(item: Item) -> Verdict:
        if "DOWN" in (item.response or ""):
            raise Unavailable("down", "as told")
        return scored(item, 0.0 if item.response == "canary" else 1.0)

    yield verify
