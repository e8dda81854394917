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

KEPT = 4 * 2**20
"""Bytes of results that are kept, the latest: those of the last minute at full speed."""


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


@dataclass(frozen=True)
class _Kept:
    """A result as JSON, which takes a small part of the memory that it does as objects."""

    digest: bytes
    result: bytes


class Desk:
    """Takes submissions for an executor; at most `room` are under way."""

    def __init__(self, executor: Executor, metrics: Metrics, room: int) -> None:
        self.executor = executor
        self.under_way = 0
        self._metrics = metrics
        self._room = room
        self._entries: dict[str, _Entry] = {}
        self._results: OrderedDict[str, _Kept] = OrderedDict()
        self._size = 0

    def check_room(self) -> None:
        """Overloaded if there is no room for another submission."""
        if self.under_way >= self._room:
            self._metrics.refused.inc()
            raise Overloaded

    async def result(self, submission: Submission) -> Result:
        """Its result. Overloaded, Conflict, or BadTest of the executor."""
        entry, kept = self._entries.get(submission.id), self._results.get(submission.id)
        digest, known = _digest(submission), entry or kept
        if known is not None and known.digest != digest:
            raise Conflict(f"another submission has the id {submission.id!r}; ids are used once")
        if kept is not None:
            return Result.model_validate_json(kept.result)
        if entry is None:
            entry = self._taken_in(submission, digest)
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
        current = self._entries.get(entry.name) is entry
        self._remove(entry)
        if entry.task.cancelled() or entry.task.exception() is not None:
            return
        result = entry.task.result()
        self._metrics.record(entry.mode, result)
        if current and not result.retryable:
            self._keep(entry, result.model_dump_json().encode())

    def _keep(self, entry: _Entry, result: bytes) -> None:
        self._results[entry.name] = _Kept(entry.digest, result)
        self._size += len(result)
        while self._size > KEPT:
            self._size -= len(self._results.popitem(last=False)[1].result)

    def _remove(self, entry: _Entry) -> None:
        """Unless another has taken its place."""
        if self._entries.get(entry.name) is entry:
            del self._entries[entry.name]

    async def close(self) -> None:
        """Give up all that is under way."""
        tasks = [entry.task for entry in self._entries.values()]
        for task in tasks:
            task.cancel()
        with suppress(asyncio.CancelledError):
            await asyncio.gather(*tasks, return_exceptions=True)


def _digest(submission: Submission) -> bytes:
    """Of all it says; unlike `==`, it tells 1 from 1.0 and from true."""
    content = json.dumps(submission.model_dump(mode="json"), sort_keys=True)
    return hashlib.sha256(content.encode()).digest()
