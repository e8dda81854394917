"""One check on its way: wanted by one request or more, settled once."""

import asyncio
import time
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from pydantic import TypeAdapter

from rewards.schema import Item, Verdict, failed

if TYPE_CHECKING:
    from rewards.worker import Worker


class Job:
    """A check; times are those of the monotonic clock.

    `message` is what a worker is sent, made here, so that nothing can fail once it has the job.
    `waiters` are called once it is settled; without any, it need not begin. `settled` is called
    before them. `holder` is the worker that answers for it: another one that was given it before is
    not to be blamed for it.
    """

    __slots__ = ("arrived", "holder", "item", "message", "settled", "started", "verdict", "waiters")

    def __init__(self, item: Item, settled: "Callable[[Job], None] | None" = None) -> None:
        self.item = item
        self.message = item.model_dump_json().encode()
        self.settled = settled
        self.waiters: list[Callable[[], None]] = []
        self.verdict: Verdict | None = None
        self.holder: Worker | None = None
        self.arrived = time.monotonic()
        self.started: float | None = None

    @property
    def wanted(self) -> bool:
        """Whether somebody waits for its verdict still."""
        return self.verdict is None and bool(self.waiters)

    def drop(self) -> None:
        """Let it go undone: nobody waits for it."""
        self.settle(failed(self.item, "dropped", "nobody waited for it"))

    def settle(self, verdict: Verdict) -> None:
        """Give it a verdict, as that of its item whatever a verifier wrote there; the first counts.

        Raises nothing and may be called again.
        """
        if self.verdict is not None:
            return
        item = self.item
        if verdict.id != item.id or verdict.verifier != item.verifier:
            verdict = verdict.model_copy(update={"id": item.id, "verifier": item.verifier})
        if verdict.status == "failed" and self.started is not None:
            elapsed = round(1000 * (time.monotonic() - self.started), 3)
            verdict = verdict.model_copy(update={"elapsed_ms": elapsed})
        self.verdict = verdict
        if self.settled is not None:
            self.settled(self)
        for waiter in self.waiters:
            waiter()


class Share:
    """Inline checks that an idle worker does for the service.

    It takes no blame: what does not come back whole is undone, and the service's again.
    """

    __slots__ = ("done", "holder", "items", "message", "started")

    def __init__(self, items: Sequence[Item]) -> None:
        self.items = items
        self.message = _ITEMS.dump_json(list(items))
        self.done: asyncio.Future[Sequence[Verdict] | None]
        self.done = asyncio.get_running_loop().create_future()
        self.holder: Worker | None = None
        self.started: float | None = None

    def settle(self, verdicts: Sequence[Verdict] | None) -> None:
        """Give it the verdicts on its items, in order, or None if it is undone."""
        if not self.done.done():
            whole = verdicts is not None and len(verdicts) == len(self.items)
            self.done.set_result(verdicts if whole else None)


_ITEMS = TypeAdapter(list[Item])


class Wait:
    """One request's wait for jobs."""

    __slots__ = ("_done", "_jobs", "_left")

    def __init__(self) -> None:
        self._jobs: list[Job] = []
        self._left = 0
        self._done: asyncio.Future[None] | None = None

    def join(self, job: Job) -> None:
        """Wait for `job` too."""
        self._jobs.append(job)
        if job.verdict is None:
            self._left += 1
            job.waiters.append(self._settled)

    def leave(self) -> None:
        """Wait for nothing any more: jobs that nobody else wants do not begin."""
        for job in self._jobs:
            if job.verdict is None:
                job.waiters.remove(self._settled)
        self._jobs.clear()

    @property
    def over(self) -> bool:
        """Whether all jobs are settled."""
        return self._left == 0

    def done(self) -> "asyncio.Future[None]":
        """Done once all jobs are settled."""
        self._done = asyncio.get_running_loop().create_future()
        if self.over:
            self._done.set_result(None)
        return self._done

    def _settled(self) -> None:
        self._left -= 1
        if self._left == 0 and self._done is not None and not self._done.done():
            self._done.set_result(None)
