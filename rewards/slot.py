"""One place in the pool, and the rule of blame: who pays when a check loses its worker.

The check is tried once more on a fresh worker, after a canary passed there. Lost again, the
candidate is to blame and scores 0 as `unverifiable`; if the canary fails, the machinery is, and
the verdict is `failed`.
"""

import time
from typing import Any

from rewards.metrics import Metrics
from rewards.nursery import Nursery
from rewards.schema import Item, Verdict, failed, scored
from rewards.worker import Lost, Worker


class Slot:
    """Keeps one warm worker, replacing it when it is lost; one check at a time."""

    def __init__(self, nursery: Nursery, deadline: float, metrics: Metrics) -> None:
        self._nursery = nursery
        self._deadline = deadline
        self._metrics = metrics
        self._worker: Worker | None = None

    async def warm(self) -> Worker:
        """Its worker, a fresh one if there is none; StartFault if there can be none."""
        if self._worker is not None and self._worker.ended:
            await self._discard("idle")
        if self._worker is None:
            self._worker = await self._nursery.fork()
            self._metrics.workers.set(self._nursery.workers)
        return self._worker

    async def decide(self, item: Item) -> Verdict:
        """The verdict on `item`, within three deadlines and two forks; StartFault as `warm`."""
        try:
            return await self._try(item, attempt=1)
        except Lost as lost:
            first = lost
        try:
            await self._prove(item.verifier)
        except Lost as lost:
            verdict = failed(item, first.cause, f"{first.detail}; then {lost.detail}")
            return _amended(verdict, item, attempt=2)
        try:
            return await self._try(item, attempt=2)
        except Lost as lost:
            verdict = scored(item, 0.0, "unverifiable")
            return _amended(verdict, item, attempt=2, detail=f"{lost.cause}: {lost.detail}")

    async def _try(self, item: Item, attempt: int) -> Verdict:
        """One check by a warm worker, which is discarded if it is lost."""
        worker = await self.warm()
        started = time.monotonic()
        try:
            verdict = await worker.check(item, self._deadline)
        except Lost as lost:
            await self._discard(lost.cause)
            raise
        elapsed = 1000 * (time.monotonic() - started)
        return _amended(verdict, item, attempt=attempt, elapsed_ms=round(elapsed, 3))

    async def _prove(self, verifier: str) -> None:
        """Lost unless a fresh worker gives the canary its known score."""
        await self.warm()
        canary = self._nursery.canary(verifier)
        verdict = await self._try(canary.item, attempt=1)
        if not canary.passes(verdict):
            await self._discard("canary")
            raise Lost("canary", "a fresh worker failed the canary")

    async def _discard(self, cause: str) -> None:
        assert self._worker is not None
        worker, self._worker = self._worker, None
        self._metrics.lost(cause)
        await self._nursery.kill(worker)
        self._metrics.workers.set(self._nursery.workers)


def _amended(verdict: Verdict, item: Item, **changes: Any) -> Verdict:
    """`verdict` as that of `item`, whatever a verifier wrote there, with `changes`."""
    return verdict.model_copy(update={"id": item.id, "verifier": item.verifier, **changes})
