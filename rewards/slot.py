"""One place in the pool, and the rule of blame: who pays when a check loses its worker.

Only the item under check can be to blame; those behind it go back to the queue. The check is tried
once more, alone on a fresh worker, after a canary passed there. Lost again, the candidate is to
blame and scores 0 as `unverifiable`; if the canary fails, or either loss came from outside (a busy
machine, a signal, the workers' parent gone), the machinery is, and the verdict is `failed`.
"""

import os
import signal
from collections.abc import Callable, Sequence
from typing import Any

from rewards.job import Job, Share
from rewards.metrics import Metrics
from rewards.nursery import Nursery
from rewards.process import usage
from rewards.schema import Verdict, failed, scored
from rewards.watch import Limits, Watch
from rewards.worker import BLAMELESS, Lost, Worker

_AHEAD = 0.005
"""Seconds of work that are sent ahead to a worker: more than the event loop pauses."""

_MOST_AHEAD = 64


class Slot:
    """Keeps one warm worker, replacing it when it is lost.

    `progress` is called when there may be room, `take_back` with jobs it was given in vain.
    """

    def __init__(
        self,
        nursery: Nursery,
        limits: Limits,
        metrics: Metrics,
        progress: Callable[[], None],
        take_back: Callable[[Sequence[Job]], None],
    ) -> None:
        self._nursery = nursery
        self._limits = limits
        self._metrics = metrics
        self._progress = progress
        self._take_back = take_back
        self._worker: Worker | None = None
        self._watch = Watch(limits, None)
        self._open = False
        self._suspect: Job | None = None

    @property
    def jobs(self) -> list[Job | Share]:
        """All that it has not settled."""
        suspects: list[Job | Share] = [] if self._suspect is None else [self._suspect]
        return suspects + ([] if self._worker is None else list(self._worker.assigned))

    @property
    def load(self) -> int:
        """How many jobs its worker has."""
        return 0 if self._worker is None else len(self._worker.assigned)

    @property
    def room(self) -> int:
        """How many jobs it may be given: two in all, or more if checks are short."""
        if self._worker is None or not self._open or not self._worker.alive:
            return 0
        pace = self._worker.pace
        ahead = 0 if pace is None else int(_AHEAD / max(pace, 1e-6))
        return max(2, min(ahead, _MOST_AHEAD)) - len(self._worker.assigned)

    def give(self, jobs: Sequence[Job | Share]) -> None:
        """Have its worker check `jobs`."""
        assert self._worker is not None
        self._worker.give(jobs)

    def stalled(self, now: float, after: float) -> bool:
        """Whether a check has run for `after` seconds there."""
        return self._worker is not None and self.load > 0 and now - self._worker.since > after

    def release(self) -> list[Job]:
        """Jobs that wait there behind the one under check, for others."""
        return [] if self._worker is None else self._worker.release()

    def look(self, now: float) -> None:
        """Give the worker up if its check is late, or if it is worn and idle."""
        worker = self._worker
        if worker is None or not worker.pid:
            return
        used = usage(worker.pid)
        if (late := self._watch.late(worker, used, now)) is not None:
            worker.lose(late)
        elif self._watch.worn(worker, used):
            self._open = False
            if not worker.assigned:
                worker.lose(Lost("recycled", "replaced in time"))

    async def run(self) -> None:
        """Serve until cancelled; StartFault if no worker can be started any more."""
        while True:
            if self._worker is None:
                await self._fork()
            lost = await self._serve()
            cause = await self._discard(lost)
            if self._suspect is not None:
                await self._retry(self._suspect, Lost(cause, lost.detail))
                self._suspect = None

    async def _serve(self) -> Lost:
        """Take jobs until the worker is lost."""
        assert self._worker is not None
        self._open = True
        self._progress()
        try:
            return await self._worker.lost
        finally:
            self._open = False

    async def _fork(self) -> Worker:
        self._worker = await self._nursery.fork(self._progress)
        self._watch = Watch(self._limits, usage(self._worker.pid))
        return self._worker

    async def _discard(self, lost: Lost) -> str:
        """Kill the worker and give back what it had; returns why it was lost in truth.

        The job it was at is suspected now, unless another one is.
        """
        worker, self._worker = self._worker, None
        assert worker is not None
        self._metrics.restarted(lost.cause)
        suspect, others = worker.remains()
        self._suspect = self._suspect or suspect
        self._take_back(others)
        status = await self._nursery.kill(worker)
        if status is None:
            return "killed"  # With its parent.
        killed = os.WIFSIGNALED(status) and os.WTERMSIG(status) == signal.SIGKILL
        return "killed" if lost.cause == "crash" and killed else lost.cause

    async def _retry(self, job: Job, first: Lost) -> None:
        """Settle `job`, whose worker was lost; a fresh worker stays if it is sound."""
        worker = await self._fork()
        try:
            await self._prove(worker, job.item.verifier)
        except Lost as lost:
            await self._discard(lost)
            detail = f"{first.detail}; then {lost.detail}"
            self._conclude(job, failed(job.item, first.cause, detail))
            return
        try:
            self._conclude(job, await worker.check(job.item))
        except Lost as lost:
            cause = await self._discard(lost)
            if blameless := BLAMELESS & {first.cause, cause}:
                detail = f"{first.detail}; then {lost.detail}"
                self._conclude(job, failed(job.item, min(blameless), detail))
            else:
                verdict = scored(job.item, 0.0, "unverifiable")
                self._conclude(job, verdict, detail=f"{cause}: {lost.detail}")

    async def _prove(self, worker: Worker, verifier: str) -> None:
        """Lost unless the worker gives the canary its known score."""
        canary = self._nursery.canary(verifier)
        verdict = await worker.check(canary.item)
        if not canary.passes(verdict):
            raise Lost("canary", "a fresh worker failed the canary")

    def _conclude(self, job: Job, verdict: Verdict, **changes: Any) -> None:
        job.settle(verdict.model_copy(update={"attempt": 2, **changes}))
