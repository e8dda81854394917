"""Where submissions are handed in: a bounded number at once, and the same one never judged twice.

A submission sent again, while the first is under way or after, shares its result. If nobody waits
for it any more, it is given up.
"""

import asyncio
import hashlib
import json
from collections import OrderedDict
from contextlib import suppress
from dataclasses import dataclass

from sandbox.judging.execution import Executor
from sandbox.metrics import Metrics
from sandbox.schema import Result, Submission

KEPT = 64 * 2**20
"""Bytes of results, as JSON, that are kept: the latest."""


class Overloaded(Exception):
    """There is no room for another submission."""


class Conflict(ValueError):
    """Another submission had this id."""


@dataclass
class _Entry:
    name: str
    digest: bytes
    mode: str
    task: asyncio.Task[Result]
    waiting: int = 0
    weight: int = 0


class Desk:
    """Takes submissions for an executor; at most `room` are under way."""

    def __init__(self, executor: Executor, metrics: Metrics, room: int) -> None:
        self.executor = executor
        self.under_way = 0
        self._metrics = metrics
        self._room = room
        self._entries: OrderedDict[str, _Entry] = OrderedDict()
        self._kept = 0

    def check_room(self) -> None:
        """Overloaded if there is no room for another submission."""
        if self.under_way >= self._room:
            self._metrics.refused.inc()
            raise Overloaded

    async def result(self, submission: Submission) -> Result:
        """Its result. Overloaded, Conflict, or BadTest of the executor."""
        entry = self._entries.get(submission.id)
        digest = _digest(submission)
        if entry is None:
            entry = self._taken_in(submission, digest)
        elif entry.digest != digest:
            raise Conflict(f"another submission has the id {submission.id!r}; ids are used once")
        entry.waiting += 1
        try:
            return await asyncio.shield(entry.task)
        finally:
            entry.waiting -= 1
            if not entry.waiting and not entry.task.done():
                self._remove(entry)
                entry.task.cancel()

    def _taken_in(self, submission: Submission, digest: bytes) -> _Entry:
        self.check_room()
        self._count(1)
        task = asyncio.create_task(self.executor.execute(submission))
        entry = _Entry(submission.id, digest, submission.mode, task)
        self._entries[entry.name] = entry
        task.add_done_callback(lambda _: self._settle(entry))
        return entry

    def _count(self, change: int) -> None:
        self.under_way += change
        self._metrics.held.set(self.under_way)

    def _settle(self, entry: _Entry) -> None:
        """Keep what is known of the program; what is not may be asked again."""
        self._count(-1)
        if entry.task.cancelled() or entry.task.exception() is not None:
            self._remove(entry)
            return
        result = entry.task.result()
        self._metrics.record(entry.mode, result)
        if result.retryable:
            self._remove(entry)
        elif self._entries.get(entry.name) is entry:
            entry.weight = len(result.model_dump_json())
            self._kept += entry.weight
            self._entries.move_to_end(entry.name)
            self._forget()

    def _remove(self, entry: _Entry) -> None:
        """Unless another has taken its place."""
        if self._entries.get(entry.name) is entry:
            del self._entries[entry.name]

    def _forget(self) -> None:
        for name, entry in list(self._entries.items()):
            if self._kept <= KEPT:
                return
            if entry.weight:
                self._kept -= entry.weight
                del self._entries[name]

    async def close(self) -> None:
        """Give up all that is under way."""
        tasks = [entry.task for entry in self._entries.values() if not entry.task.done()]
        for task in tasks:
            task.cancel()
        with suppress(asyncio.CancelledError):
            await asyncio.gather(*tasks, return_exceptions=True)


def _digest(submission: Submission) -> bytes:
    """Of all it says; unlike `==`, it tells 1 from 1.0 and from true."""
    content = json.dumps(submission.model_dump(mode="json"), sort_keys=True)
    return hashlib.sha256(content.encode()).digest()
