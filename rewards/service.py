"""The verifiers of one process at work: workers, connections to other services, canaries.

It begins to serve once the verifiers are warm; requests that come before that wait for it.
"""

import asyncio
import importlib
from collections.abc import Mapping, Sequence
from contextlib import AsyncExitStack
from types import TracebackType
from typing import Any, Self

from rewards.cache import Cache
from rewards.metrics import Metrics
from rewards.nursery import Nursery, StartFault, Unservable
from rewards.readiness import Readiness
from rewards.recorder import Ledger, Recorder
from rewards.remote import Remote
from rewards.scorer import Route, Scorer
from rewards.verifiers import Profile
from rewards.watch import Limits
from rewards.workers import Pool

_CANARY_WITHIN = 9
"""Deadlines: three tries of three each."""


class Service:
    """Serves the verifiers of `nursery`, as an async context in the main thread.

    `broken` is set to the reason when it cannot serve, or not any more. `remembered` is the size of
    the cache.
    """

    def __init__(
        self,
        nursery: Nursery,
        limits: Limits,
        metrics: Metrics,
        *,
        remembered: int,
        ledger: Ledger | None = None,
    ) -> None:
        self.scorer: Scorer | None = None
        self.profiles: Sequence[Profile] = []
        self._nursery = nursery
        self._limits = limits
        self._metrics = metrics
        self._cache = Cache(remembered)
        self._ledger = ledger
        self._pool = Pool(nursery, limits, metrics)
        self._readiness: Readiness | None = None
        self._fault: str | None = None
        self._misconfigured = False
        self._begun = asyncio.Event()
        self._life: asyncio.Task[None] | None = None

    @property
    def verifiers(self) -> Sequence[str]:
        """Names of what is served."""
        return list(self._nursery.verifiers)

    @property
    def misconfigured(self) -> bool:
        """Whether it cannot serve for what it was told to, by options or settings."""
        return self._misconfigured

    @property
    def broken(self) -> str | None:
        """Why it cannot serve, if it cannot."""
        return self._fault or self._pool.broken

    def ready(self) -> tuple[bool, dict[str, Any]]:
        """Whether every verifier gives verdicts at once, and what is known of each."""
        known: Mapping[str, str | None] = self._readiness.reasons if self._readiness else {}
        reasons = {name: known.get(name, "starting") for name in self.verifiers}
        if (fault := self._ledger_fault()) is not None:
            reasons |= dict.fromkeys(reasons, fault)
        if not self._pool.ready:
            reasons |= dict.fromkeys(reasons, self.broken or "no worker")
        ready = not any(reasons.values())
        verifiers = {
            name: {"ready": reason is None, "reason": reason} for name, reason in reasons.items()
        }
        return ready, {"ready": ready, "verifiers": verifiers}

    def _ledger_fault(self) -> str | None:
        try:
            if self._ledger is not None:
                self._ledger.check()
        except OSError as fault:
            return f"the ledger is lost: {fault}"
        return None

    async def started(self) -> Scorer:
        """Wait until it serves; StartFault if it will not."""
        await self._begun.wait()
        if self.scorer is None:
            raise StartFault(self.broken or "the service is stopping")
        return self.scorer

    async def __aenter__(self) -> Self:
        self._life = asyncio.create_task(self._live())
        self._life.add_done_callback(self._ended)
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        fault: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        assert self._life is not None
        self._life.cancel()
        await asyncio.gather(self._life, return_exceptions=True)
        self._nursery.end()

    async def _live(self) -> None:
        async with AsyncExitStack() as stack:
            self.profiles = await self._nursery.profiles()
            await stack.enter_async_context(self._pool)
            routes = {one.name: await self._route(one, stack) for one in self.profiles}
            recorder = self._recorder(stack)
            scorer = Scorer(routes, self._cache, self._metrics, recorder, self._pool.lend)
            within = _CANARY_WITHIN * self._limits.deadline
            self._readiness = Readiness(self.profiles, scorer.probe, within)
            self._show(scorer, routes)
            self.scorer = scorer
            self._begun.set()
            await self._readiness.run()

    async def _route(self, profile: Profile, stack: AsyncExitStack) -> Route:
        if profile.runs == "worker":
            return Route(profile.digest, self._pool)
        module = importlib.import_module(self._nursery.verifiers[profile.name])
        if profile.runs == "inline":
            return Route(profile.digest, self._pool, module.verify)
        deadline = getattr(module, "DEADLINE", self._limits.deadline)

        async def remote(probing: bool) -> Remote:
            ask = await stack.enter_async_context(module.connected(probing=probing))
            place = Remote(ask, deadline, self._limits.waiting)
            stack.push_async_callback(place.end)
            return place

        return Route(profile.digest, await remote(False), probes=await remote(True))

    def _recorder(self, stack: AsyncExitStack) -> Recorder | None:
        if self._ledger is None:
            return None
        recorder = Recorder(self._ledger, {one.name: one.digest for one in self.profiles})
        stack.callback(recorder.close)
        return recorder

    def _show(self, scorer: Scorer, routes: Mapping[str, Route]) -> None:
        places = {route.place for route in routes.values()}
        self._metrics.gauges.update(
            rewards_items_waiting=("Items in queues", lambda: sum(p.waiting for p in places)),
            rewards_items_in_flight=("Items without a verdict", lambda: scorer.in_flight),
            rewards_workers_ready=("Warm workers", lambda: self._nursery.workers),
        )

    def _ended(self, task: asyncio.Task[None]) -> None:
        if not task.cancelled() and (fault := task.exception()) is not None:
            known = isinstance(fault, StartFault | ValueError | OSError)
            self._fault = str(fault) if known else repr(fault)
            self._misconfigured = isinstance(fault, Unservable | ValueError)
        self._begun.set()
