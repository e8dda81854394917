"""The places where programs run: each keeps one slot of the tier, and replaces it once lost.

Who waits is served in order of arrival, also those who need several places at once.
"""

import asyncio
from collections import deque
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Sequence
from contextlib import asynccontextmanager, suppress
from typing import TypeVar

from sandbox.metrics import Metrics
from sandbox.tiers import NotOffered, Program, Run, Slot, SlotLost, Talk, Tier

T = TypeVar("T")
_BROKEN = 3
_NOTHING = Program(("python", "main.py"), {"main.py": b""})


class Place:
    """One place for one program at a time.

    `failures` counts slots that could not be made, and `lost` runs that broke theirs, in a row.
    """

    def __init__(self, tier: Tier, metrics: Metrics) -> None:
        self.failures = self.lost = 0
        self._tier = tier
        self._metrics = metrics
        self._slot: Slot | None = None

    async def warm(self) -> Slot:
        """Its slot, a fresh one if there is none; SlotLost if there can be none."""
        if self._slot is None:
            self.failures += 1
            self._slot = await self._tier.slot()
            self.failures = 0
        return self._slot

    async def run(self, program: Program, talk: Talk | None = None) -> Run:
        """Run `program` to its end; SlotLost if that broke the slot, which is then replaced."""
        try:
            slot = await self.warm()
            run = await slot.run(program, talk)
            self.lost = 0
            return run
        except SlotLost as lost:
            self.lost += _BROKEN if lost.reason == "silent" else 1
            self._metrics.lost(lost.reason)
            await self.clear()
            raise

    async def clear(self) -> None:
        """End the slot."""
        slot, self._slot = self._slot, None
        if slot is not None:
            await slot.close()


class Pool:
    """All places of a service, as an async context."""

    def __init__(self, tier: Tier, size: int, metrics: Metrics) -> None:
        self.size = size
        self.tier = tier
        self._places = [Place(tier, metrics) for _ in range(size)]
        self._free = deque(self._places)
        self._waiting: deque[tuple[int, asyncio.Future[list[Place]]]] = deque()
        self._trial: asyncio.Task[None] | None = None

    async def __aenter__(self) -> "Pool":
        """Warm all places; NotOffered if the tier does not make so many slots."""
        try:
            await _all(place.warm() for place in self._places)
        except SlotLost as lost:
            await self.__aexit__()
            raise NotOffered(
                f"the tier {self.tier.name} makes no slot: {lost}; see `posttrain sandbox doctor`"
            ) from None
        except BaseException:
            await self.__aexit__()
            raise
        return self

    async def __aexit__(self, *_: object) -> None:
        if self._trial is not None:
            self._trial.cancel()
            await asyncio.gather(self._trial, return_exceptions=True)
        await _all(place.clear() for place in self._places)

    @property
    def ready(self) -> bool:
        """Whether programs run: false once a slot cannot be had, or all break or hang."""
        made = all(place.failures < _BROKEN for place in self._places)
        return made and any(place.lost < _BROKEN for place in self._places)

    def try_all(self) -> None:
        """Have each place run a program that does nothing, if that is not under way already.

        So that a pool that nobody uses, as it is not ready, finds out when it is again.
        """
        if self._trial is None or self._trial.done():
            self._trial = asyncio.create_task(self._tried())

    async def _tried(self) -> None:
        async def job(places: Sequence[Place]) -> None:
            await _all(place.run(_NOTHING) for place in places)

        with suppress(SlotLost):
            await self.use(self.size, job)

    async def use(self, count: int, job: Callable[[Sequence[Place]], Awaitable[T]]) -> T:
        """What `job` makes of `count` places at once, tried anew once if a slot is lost.

        SlotLost if that happens again.
        """
        with suppress(SlotLost):
            async with self._lease(count) as places:
                return await job(places)
        async with self._lease(count) as places:
            return await job(places)

    @asynccontextmanager
    async def _lease(self, count: int) -> AsyncIterator[list[Place]]:
        assert 1 <= count <= self.size
        granted: asyncio.Future[list[Place]] = asyncio.get_running_loop().create_future()
        self._waiting.append((count, granted))
        self._grant()
        try:
            yield await granted
        finally:
            if granted.done() and not granted.cancelled():
                self._free.extend(granted.result())
            granted.cancel()
            self._grant()

    def _grant(self) -> None:
        while self._waiting:
            count, granted = self._waiting[0]
            if granted.done():  # Whoever waited has gone.
                self._waiting.popleft()
            elif count <= len(self._free):
                self._waiting.popleft()
                granted.set_result([self._free.popleft() for _ in range(count)])
            else:
                return


async def _all(works: Iterable[Awaitable[object]]) -> None:
    """Await each to its end; then raise the first fault there was."""
    for ended in await asyncio.gather(*works, return_exceptions=True):
        if isinstance(ended, BaseException):
            raise ended
