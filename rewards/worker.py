"""The service's end of one worker process: items go in, verdicts come out in their order.

Several items are on their way at once, so that the worker never waits for the next; only the first
of them is under check. A worker that is late, dead or faulty is never asked again, since nobody
knows what it is doing.
"""

import asyncio
import time
from collections import deque
from collections.abc import Callable, Iterable
from typing import cast

from pydantic import ValidationError

from rewards.job import Job, Share
from rewards.schema import Item, Verdict, Wire
from rewards.zygote import HEADER

_WEIGHT = 0.1
"""Of the last check in the mean of the recent ones."""


class Lost(Exception):
    """A process of ours is of no more use.

    `cause` is `deadline`, `crash` or `error`, which an item may bring about; `stalled` (late
    without having computed), `killed` (by a signal from outside) or `confused` (it answered for
    another item), which are never an item's doing; `idle` (ended without an item) or `recycled`.
    """

    def __init__(self, cause: str, detail: str) -> None:
        super().__init__(detail)
        self.cause = cause
        self.detail = detail


BLAMELESS = frozenset({"stalled", "killed", "confused"})
"""Causes that no item is to blame for."""


class _Reply(Wire):
    verdict: Verdict | None = None
    verdicts: list[Verdict] | None = None
    fault: str | None = None


class Worker(asyncio.Protocol):
    """One process, forked by a zygote, and the channel to it.

    `assigned` are its jobs, the first under check since `since`; `checks` counts its verdicts,
    `pace` is their recent mean duration in seconds, if there is one. `progress` is called after
    verdicts came in. `lost` is the one way it ends.
    """

    def __init__(self, progress: Callable[[], None]) -> None:
        self.pid = 0
        self.assigned: deque[Job | Share] = deque()
        self.since = 0.0
        self.checks = 0
        self.pace: float | None = None
        self.lost: asyncio.Future[Lost] = asyncio.get_running_loop().create_future()
        self._progress = progress
        self._transport: asyncio.Transport | None = None
        self._unread = bytearray()

    @property
    def alive(self) -> bool:
        """Whether it may be given more, as far as is known."""
        closing = self._transport is None or self._transport.is_closing()
        return not (closing or self.lost.done())

    def give(self, jobs: Iterable[Job | Share]) -> None:
        """Send `jobs`; it answers for them from now on."""
        frames: list[bytes] = []
        for job in jobs:
            frames += (HEADER.pack(len(job.message)), job.message)
            job.holder = self
            self.assigned.append(job)
            if len(self.assigned) == 1:
                self._begin(job)
        if self.alive:  # Else its loss is about to be told, and takes care of them.
            assert self._transport is not None
            self._transport.write(b"".join(frames))

    async def check(self, item: Item) -> Verdict:
        """The verdict on `item`, which is given alone; Lost otherwise."""
        done = asyncio.Event()
        job = Job(item)
        job.waiters.append(done.set)
        self.lost.add_done_callback(lambda _: done.set())
        self.give([job])
        await done.wait()
        if job.verdict is None:
            raise self.lost.result()
        return job.verdict

    def remains(self) -> tuple[Job | None, list[Job]]:
        """Of a lost worker: the job to blame, if any, and those that it had not begun."""
        for share in self.assigned:
            if isinstance(share, Share):
                share.settle(None)
        mine = [job for job in self._mine() if job.verdict is None]
        if mine and mine[0] is self.assigned[0]:
            return mine[0], mine[1:]
        return None, mine

    def release(self) -> list[Job]:
        """What it has not begun, no longer its own: it may come to it still, but unasked."""
        released = [job for job in self._mine() if job is not self.assigned[0]]
        for job in released:
            job.holder = None
        return released

    def _mine(self) -> list[Job]:
        return [job for job in self.assigned if isinstance(job, Job) and job.holder is self]

    def lose(self, lost: Lost) -> None:
        """It is of no more use because of `lost`."""
        if not self.lost.done():
            self.lost.set_result(lost)

    def close(self) -> None:
        """Close the channel, at which the process ends if it is idle."""
        if self._transport is not None:
            self._transport.abort()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """The channel is open."""
        self._transport = cast(asyncio.Transport, transport)

    def connection_lost(self, exc: Exception | None) -> None:
        """The process has ended."""
        if self.assigned:
            self.lose(Lost("crash", "the worker ended during the check"))
        self.lose(Lost("idle", "the worker ended while it was idle"))

    def data_received(self, data: bytes) -> None:
        """Verdicts, or parts of them."""
        self._unread += data
        at = 0
        while len(self._unread) >= (body := at + HEADER.size):
            end = body + HEADER.unpack_from(self._unread, at)[0]
            if len(self._unread) < end:
                break
            self._take(bytes(self._unread[body:end]))
            at = end
        del self._unread[:at]
        self._progress()

    def _take(self, frame: bytes) -> None:
        if self.lost.done():
            return
        try:
            reply = _Reply.model_validate_json(frame)
        except ValidationError as fault:
            self.lose(Lost("error", f"the verifier's verdict is malformed: {fault}"))
            return
        job = self.assigned[0]
        if isinstance(job, Share):
            self.checks += len(job.items)
            job.settle(reply.verdicts)
        elif reply.verdict is None:
            self.lose(Lost("error", reply.fault or "the verifier gave no verdict"))
            return
        elif (reply.verdict.id, reply.verdict.verifier) != (job.item.id, job.item.verifier):
            self.lose(Lost("confused", "the worker answered for another item"))
            return
        else:
            self.checks += 1
            self._learn(reply.verdict.elapsed_ms / 1000)
            job.settle(reply.verdict)
        self.assigned.popleft()
        if self.assigned:
            self._begin(self.assigned[0])

    def _learn(self, took: float) -> None:
        self.pace = took if self.pace is None else self.pace + _WEIGHT * (took - self.pace)

    def _begin(self, job: Job | Share) -> None:
        self.since = time.monotonic()
        if job.started is None:
            job.started = self.since
