"""A bounded queue in front of resident workers; a job admitted always gets a verdict.

The deadline of a check runs from its start in a worker, so time in the queue never counts.
"""

import asyncio
import time
from collections import deque
from collections.abc import Sequence
from types import TracebackType
from typing import Self

from rewards.job import Job, Share
from rewards.metrics import Metrics
from rewards.nursery import Nursery, StartFault
from rewards.schema import failed
from rewards.slot import Slot
from rewards.watch import Limits

_LOOK = 0.05
_SLOW = 0.1
_STUCK = 1.0
"""Seconds a check runs until those behind it go to an idle worker, or back to the queue."""

_SHARES = 2
"""Shares that a worker is lent at most: one to do, and one to begin with after that."""


class Pool:
    """Workers for a set of verifiers, as an async context in the main thread.

    `broken` is set to the reason when no worker can be started any more.
    """

    def __init__(self, nursery: Nursery, limits: Limits, metrics: Metrics) -> None:
        self.broken: str | None = None
        self._closed: str | None = None
        self._nursery = nursery
        self._waiting = limits.waiting
        self._queue: deque[Job] = deque()
        self._slots = [
            Slot(nursery, limits, metrics, self._feed, self._take_back)
            for _ in range(limits.workers)
        ]
        self._tasks: list[asyncio.Task[None]] = []

    @property
    def ready(self) -> bool:
        """Whether a warm worker is there."""
        return self._nursery.workers > 0 and self.broken is None

    @property
    def waiting(self) -> int:
        """How many jobs no worker has been given."""
        return len(self._queue)

    async def __aenter__(self) -> Self:
        for run in (*(slot.run for slot in self._slots), self._look):
            task = asyncio.create_task(run())
            task.add_done_callback(self._ended)
            self._tasks.append(task)
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        fault: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """End all workers; what has no verdict then is `failed`."""
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        self._nursery.end()
        self._close("the service is stopping")

    def has_room(self, jobs: int) -> bool:
        """Whether so many may be submitted; always if none waits, so that no request is stuck."""
        return not self._queue or len(self._queue) + jobs <= self._waiting

    def submit(self, jobs: Sequence[Job]) -> None:
        """Have `jobs` checked; the oldest begin first."""
        self._queue.extend(jobs)
        if self._closed is not None:
            self._close(self._closed)
        self._feed()

    def lend(self, share: Share) -> bool:
        """Have a worker do `share`, if no job waits and one has at most one share to do."""
        able = [slot for slot in self._slots if slot.load < _SHARES and slot.room > 0]
        if self._queue or not able:
            return False
        min(able, key=lambda slot: slot.load).give([share])
        return True

    def _feed(self) -> None:
        """Give jobs to workers: to each the next as long as it is the one with the least."""
        if not self._queue:
            return
        now = time.monotonic()
        room = {slot: slot.room for slot in self._slots if not slot.stalled(now, _SLOW)}
        given: dict[Slot, list[Job]] = {slot: [] for slot, free in room.items() if free > 0}
        while self._queue and given:
            slot = min(given, key=lambda one: one.load + len(given[one]))
            job = self._queue.popleft()
            if not job.wanted:
                job.drop()
                continue
            given[slot].append(job)
            if len(given[slot]) == room[slot]:
                slot.give(given.pop(slot))
        for slot, jobs in given.items():
            slot.give(jobs)

    def _take_back(self, jobs: Sequence[Job]) -> None:
        """Queue `jobs` again, ahead of all others."""
        for job in jobs:
            job.holder = None
        self._queue.extendleft(reversed(jobs))

    async def _look(self) -> None:
        while True:
            await asyncio.sleep(_LOOK)
            now = time.monotonic()
            for slot in self._slots:
                slot.look(now)
            self._free_the_stuck(now)

    def _free_the_stuck(self, now: float) -> None:
        idle = not self._queue and any(slot.load == 0 and slot.room > 0 for slot in self._slots)
        for slot in self._slots:
            if slot.load > 1 and slot.stalled(now, _SLOW if idle else _STUCK):
                self._take_back(slot.release())
        self._feed()

    def _ended(self, task: asyncio.Task[None]) -> None:
        """A task ends only where no worker can be started, or by a bug: nobody may wait for it."""
        if not task.cancelled() and (fault := task.exception()) is not None:
            self.broken = str(fault) if isinstance(fault, StartFault) else repr(fault)
            self._close(self.broken)

    def _close(self, why: str) -> None:
        self._closed = why
        jobs = [*self._queue, *(job for slot in self._slots for job in slot.jobs)]
        self._queue.clear()
        for job in jobs:
            if isinstance(job, Share):
                job.settle(None)
            else:
                job.settle(failed(job.item, "unavailable", why))
