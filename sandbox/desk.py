"""Where submissions are handed in: a bounded number at once, and the same one never judged twice.

A submission sent again, while the first is under way or after, shares its result. If nobody waits
for it any more, it is given up.
"""

import asyncio
from collections import OrderedDict
from contextlib import suppress
from dataclasses import dataclass

from sandbox.judging.execution import Executor
from sandbox.metrics import Metrics
from sandbox.schema import Result, Submission

KEPT_TESTS = 20_000
"""Results are kept, the latest first, as long as they hold no more tests than this together."""


class Overloaded(Exception):
    """There is no room for another submission."""


class Conflict(ValueError):
    """Another submission had this id."""


@dataclass
class _Entry:
    submission: Submission
    task: asyncio.Task[Result]
    waiting: int = 0

    @property
    def weight(self) -> int:
        return 1 + len(self.task.result().tests)


class Desk:
    """Takes submissions for an executor; at most `room` are under way."""

    def __init__(self, executor: Executor, metrics: Metrics, room: int) -> None:
        self.executor = executor
        self.under_way = 0
        self._metrics = metrics
        self._room = room
        self._entries: OrderedDict[str, _Entry] = OrderedDict()
        self._kept = 0

    async def result(self, submission: Submission) -> Result:
        """Its result. Overloaded, Conflict, or BadTest of the executor."""
        entry = self._entries.get(submission.id)
        if entry is None:
            entry = self._taken_in(submission)
        elif entry.submission != submission:
            raise Conflict(f"another submission has the id {submission.id!r}; ids are used once")
        entry.waiting += 1
        try:
            return await asyncio.shield(entry.task)
        finally:
            entry.waiting -= 1
            if not entry.waiting and not entry.task.done():
                self._entries.pop(submission.id, None)
                entry.task.cancel()

    def _taken_in(self, submission: Submission) -> _Entry:
        if self.under_way >= self._room:
            self._metrics.refused.inc()
            raise Overloaded
        self._count(1)
        task = asyncio.create_task(self.executor.execute(submission))
        entry = self._entries[submission.id] = _Entry(submission, task)
        task.add_done_callback(lambda _: self._settle(entry))
        return entry

    def _count(self, change: int) -> None:
        self.under_way += change
        self._metrics.held.set(self.under_way)

    def _settle(self, entry: _Entry) -> None:
        """Keep what is known of the program; what is not may be asked again."""
        self._count(-1)
        name, task = entry.submission.id, entry.task
        if task.cancelled() or task.exception() is not None:
            if self._entries.get(name) is entry:
                del self._entries[name]
            return
        self._metrics.record(entry.submission.mode, task.result())
        if task.result().retryable:
            self._entries.pop(name, None)
            return
        self._kept += entry.weight
        self._entries.move_to_end(name)
        self._forget()

    def _forget(self) -> None:
        for name, entry in list(self._entries.items()):
            if self._kept <= KEPT_TESTS:
                return
            if entry.task.done():
                self._kept -= entry.weight
                del self._entries[name]

    async def close(self) -> None:
        """Give up all that is under way."""
        tasks = [entry.task for entry in self._entries.values() if not entry.task.done()]
        for task in tasks:
            task.cancel()
        with suppress(asyncio.CancelledError):
            await asyncio.gather(*tasks, return_exceptions=True)
