"""Verifiers behind other services, asked from this process: a bounded number of items at once.

Nothing that goes wrong here is the candidate's doing, so every fault is a `failed` verdict.
"""

import asyncio
import time
from collections.abc import Awaitable, Callable, Sequence

from rewards.job import Job
from rewards.schema import Item, Verdict, failed
from rewards.verifiers import Unavailable

AT_ONCE = 64
"""Items under check at once; the others wait."""

Ask = Callable[[Item], Awaitable[Verdict]]


class Remote:
    """One remote verifier: a queue and `AT_ONCE` places; the deadline runs from leaving the queue.

    `waiting` is the bound of the queue.
    """

    def __init__(self, ask: Ask, deadline: float, waiting: int) -> None:
        self._ask = ask
        self._deadline = deadline
        self._bound = waiting
        self._gate = asyncio.Semaphore(AT_ONCE)
        self._tasks: set[asyncio.Task[None]] = set()
        self._waiting = 0

    @property
    def waiting(self) -> int:
        """How many jobs have not begun."""
        return self._waiting

    def has_room(self, jobs: int) -> bool:
        """Whether so many may be submitted; always if none waits, so that no request is stuck."""
        return not self._waiting or self._waiting + jobs <= self._bound

    def submit(self, jobs: Sequence[Job]) -> None:
        """Have `jobs` checked."""
        for job in jobs:
            self._waiting += 1
            task = asyncio.create_task(self._settle(job))
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)

    async def end(self) -> None:
        """Give up all that is under way: it is `failed`."""
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    async def _settle(self, job: Job) -> None:
        try:
            try:
                await self._gate.acquire()
            finally:
                self._waiting -= 1
            try:
                if job.wanted:
                    job.settle(await self._verdict(job))
            finally:
                self._gate.release()
            job.drop()  # Does nothing unless nobody wants it.
        finally:
            job.settle(failed(job.item, "unavailable", "the service is stopping"))

    async def _verdict(self, job: Job) -> Verdict:
        job.started = time.monotonic()
        try:
            async with asyncio.timeout(self._deadline):
                verdict = await self._ask(job.item)
        except TimeoutError:
            return failed(job.item, "deadline", f"no verdict within {self._deadline:g} s")
        except Unavailable as fault:
            return failed(job.item, fault.reason, fault.detail)
        except Exception as fault:  # noqa: BLE001 - a verifier's fault is reported, never scored
            return failed(job.item, "error", f"{type(fault).__name__}: {fault}"[:4000])
        elapsed = round(1000 * (time.monotonic() - job.started), 3)
        return verdict.model_copy(update={"elapsed_ms": elapsed})
