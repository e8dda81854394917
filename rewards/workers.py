"""A bounded queue in front of resident workers; an item admitted always gets a verdict.

The deadline of a check runs from its dispatch, so time in the queue never counts.
"""

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from rewards.metrics import Metrics
from rewards.nursery import Nursery, StartFault
from rewards.schema import Item, Verdict, abstained, failed
from rewards.slot import Slot


class Overloaded(Exception):
    """The queue has no room for these items."""


@dataclass(frozen=True)
class Limits:
    """Bounds of a pool: `deadline` in seconds a check, `waiting` in items."""

    workers: int = 1
    deadline: float = 10.0
    waiting: int = 4096


def _future() -> asyncio.Future[Verdict]:
    return asyncio.get_running_loop().create_future()


@dataclass(frozen=True)
class _Job:
    item: Item
    verdict: asyncio.Future[Verdict] = field(default_factory=_future)

    def settle(self, verdict: Verdict) -> None:
        """Give the verdict to the request, unless that has gone."""
        if not self.verdict.done():
            self.verdict.set_result(verdict)


class Pool:
    """Workers for a set of verifiers, as an async context in the main thread.

    `broken` is set to the reason when no worker can be started any more.
    """

    def __init__(self, nursery: Nursery, limits: Limits, metrics: Metrics) -> None:
        self.broken: str | None = None
        self._nursery = nursery
        self._limits = limits
        self._metrics = metrics
        self._queue: asyncio.Queue[_Job] = asyncio.Queue()
        self._tasks: list[asyncio.Task[None]] = []

    @property
    def verifiers(self) -> Mapping[str, str]:
        """Name -> module of what is served."""
        return self._nursery.verifiers

    @property
    def ready(self) -> bool:
        """Whether a warm worker is there."""
        return self._nursery.workers > 0 and self.broken is None

    async def __aenter__(self) -> "Pool":
        for _ in range(self._limits.workers):
            slot = Slot(self._nursery, self._limits.deadline, self._metrics)
            self._tasks.append(asyncio.create_task(self._serve(slot)))
            self._tasks[-1].add_done_callback(self._ended)
        return self

    async def __aexit__(self, *_: object) -> None:
        """End all workers; what still waits gets the verdict `failed`."""
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        self._nursery.end()
        self._drain("the service is stopping")

    async def check(self, items: Sequence[Item]) -> list[Verdict]:
        """Verdicts in the order of `items`; Overloaded if the queue has no room for them all."""
        if self._queue.qsize() + len(items) > self._limits.waiting:
            self._metrics.refused.inc(len(items))
            raise Overloaded
        jobs = [_Job(item) for item in items]
        for job in jobs:
            self._admit(job)
        try:
            verdicts = [await job.verdict for job in jobs]
        finally:
            for job in jobs:
                job.verdict.cancel()  # Of a request that has gone; no worker starts on it then.
        for verdict in verdicts:
            self._metrics.record(verdict)
        return verdicts

    def _admit(self, job: _Job) -> None:
        if job.item.verifier not in self.verifiers:
            served = ", ".join(self.verifiers)
            job.settle(abstained(job.item, "unknown_verifier", f"served here: {served}"))
        elif self.broken is not None:
            job.settle(failed(job.item, "unavailable", self.broken))
        else:
            self._queue.put_nowait(job)
            self._metrics.waiting.set(self._queue.qsize())

    async def _serve(self, slot: Slot) -> None:
        while True:
            await slot.warm()
            job = await self._queue.get()
            self._metrics.waiting.set(self._queue.qsize())
            if not job.verdict.done():
                await self._settle(slot, job)

    def _ended(self, task: asyncio.Task[None]) -> None:
        """A slot ends only where no worker can be started, or by a bug: nobody may wait for it."""
        if not task.cancelled() and (fault := task.exception()) is not None:
            self.broken = str(fault) if isinstance(fault, StartFault) else repr(fault)
            self._drain(self.broken)

    async def _settle(self, slot: Slot, job: _Job) -> None:
        try:
            job.settle(await slot.decide(job.item))
        finally:  # Only where the pool stops or breaks is there no verdict yet.
            job.settle(failed(job.item, "unavailable", "the service lost its workers or stopped"))

    def _drain(self, why: str) -> None:
        while not self._queue.empty():
            job = self._queue.get_nowait()
            job.settle(failed(job.item, "unavailable", why))
