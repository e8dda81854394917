"""From items to verdicts: which place each check goes to, what is known already, what is shared.

An inline check is done here and now; all others are jobs. A check is known by its content: while an
equal one is under way its verdict is shared, and after that it is remembered for a while.
"""

import asyncio
import time
from collections import deque
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Protocol

from rewards.cache import Cache, Key, content_key
from rewards.combination import combined, expanded
from rewards.job import Job, Share, Wait
from rewards.metrics import UNKNOWN, Metrics
from rewards.recorder import Recorder
from rewards.schema import Entry, Item, Verdict, abstained

_TURN = 0.005
"""Seconds of inline checks after which others get their turn."""

_PIECE = 64
"""Inline checks done here, or lent to a worker, at a time."""

_INLINE_SIZE = 2**18
"""Characters; longer responses are a worker's."""

_Outcome = Verdict | Job | None
"""A verdict, or the job it will come from, or nothing yet for an inline check."""


class Overloaded(Exception):
    """A queue has no room for these items."""


class Gone(Exception):
    """Whoever asked has left."""


class Place(Protocol):
    """Where jobs are done."""

    @property
    def waiting(self) -> int:
        """How many jobs have not begun."""

    def has_room(self, jobs: int) -> bool:
        """Whether so many may be submitted."""

    def submit(self, jobs: Sequence[Job]) -> None:
        """Have them done: each is settled in the end."""


@dataclass(frozen=True)
class Route:
    """How items of a verifier are checked: by `inline` if there is one, else at `place`.

    What `inline` raises on goes to the place, where the rule of blame holds. Canaries are checked
    at `probes`, if they are not to wait behind others.
    """

    digest: str
    place: Place
    inline: Callable[[Item], Verdict] | None = None
    probes: Place | None = None


class Scorer:
    """Scores requests for the verifiers in `routes`; `lend` gives checks to an idle worker."""

    def __init__(
        self,
        routes: Mapping[str, Route],
        cache: Cache,
        metrics: Metrics,
        recorder: Recorder | None = None,
        lend: Callable[[Share], bool] = lambda _: False,
    ) -> None:
        self._routes = routes
        self._cache = cache
        self._metrics = metrics
        self._recorder = recorder
        self._lend = lend
        self._under_way: dict[Key, Job] = {}

    @property
    def in_flight(self) -> int:
        """How many checks have a place and no verdict yet."""
        return len(self._under_way)

    async def score(
        self,
        entries: Sequence[Entry],
        gone: Callable[[], Awaitable[None]],
        *,
        fresh: bool = False,
    ) -> list[Verdict]:
        """A verdict on each of `entries`, on record if there is a ledger.

        If `fresh`, none that is remembered, though that of an equal item under way. Overloaded if a
        queue has no room for them all; Gone once `gone` returns, which leaves undone what has not
        begun; OSError if the ledger cannot be written.
        """
        arrived = time.monotonic()
        items = expanded(entries)
        wait = Wait()
        try:
            outcomes = self._begin(items, wait, fresh)
            await self._check_inline(items, outcomes, wait)
            if not wait.over:
                await _done_unless(wait, gone)
        finally:
            wait.leave()
        verdicts = self._conclude(items, outcomes, arrived)
        if items is not entries:
            verdicts = combined(entries, verdicts)
        if self._recorder is not None:
            latency = round(1000 * (time.monotonic() - arrived), 3)
            await self._recorder.record(entries, verdicts, latency)
        return verdicts

    def at_once(self, entries: Sequence[Entry]) -> list[Verdict] | None:
        """The verdicts if none has to be waited for: few short inline checks, and no ledger."""
        if self._recorder is not None or len(entries) > _PIECE:
            return None
        items, verdicts, times = [], [], [time.monotonic()]
        for entry in entries:
            if not isinstance(entry, Item) or (check := self._short_check(entry)) is None:
                return None
            try:
                verdicts.append(check(entry))
            except Exception:  # noqa: BLE001 - `score` meets it again, and knows what to do
                return None
            items.append(entry)
            times.append(time.monotonic())
        for item, (start, end) in zip(items, pairwise(times), strict=True):
            self._metrics.check.add(item.verifier, end - start)
        return self._conclude(items, verdicts, times[0])

    def _short_check(self, item: Item) -> Callable[[Item], Verdict] | None:
        """The inline check of `item`, if its verifier has one and the response is short."""
        route = self._routes.get(item.verifier)
        short = len(item.response or "") <= _INLINE_SIZE
        return route.inline if route is not None and short else None

    async def probe(self, item: Item) -> Verdict:
        """The verdict on a canary, by whoever checks such items; not remembered, not counted."""
        route = self._routes[item.verifier]
        if route.inline is not None:
            return route.inline(item)
        job, wait = Job(item), Wait()
        wait.join(job)
        (route.probes or route.place).submit([job])
        try:
            await wait.done()
        finally:
            wait.leave()
        assert job.verdict is not None
        return job.verdict

    def _begin(self, items: Sequence[Item], wait: Wait, fresh: bool) -> list[_Outcome]:
        outcomes: list[_Outcome] = []
        new: dict[Key, Job] = {}
        for item in items:
            route = self._routes.get(item.verifier)
            if route is None:
                served = ", ".join(self._routes)
                outcomes.append(abstained(item, UNKNOWN, f"served here: {served}"))
            elif self._short_check(item) is not None:
                outcomes.append(None)
            else:
                key = content_key(route.digest, item)
                known = None if fresh else self._remembered(key, item)
                outcomes.append(known or self._find(key, item, wait, new))
        if new:
            self._submit(new)
        return outcomes

    def _remembered(self, key: Key, item: Item) -> Verdict | None:
        if (known := self._cache.get(key)) is None:
            return None
        self._metrics.hit(item.verifier)
        return known.model_copy(update={"elapsed_ms": 0.0})

    def _find(self, key: Key, item: Item, wait: Wait, new: dict[Key, Job]) -> Job:
        """The job of an equal item, else a new one."""
        if (job := self._under_way.get(key) or new.get(key)) is not None:
            self._metrics.joined(item.verifier)
        else:
            job = new[key] = Job(item, lambda job: self._settled(key, job))
        wait.join(job)
        return job

    def _submit(self, new: Mapping[Key, Job]) -> None:
        by_place: dict[Place, list[Job]] = {}
        for job in new.values():
            by_place.setdefault(self._routes[job.item.verifier].place, []).append(job)
        if not all(place.has_room(len(jobs)) for place, jobs in by_place.items()):
            self._metrics.refused(len(new))
            raise Overloaded
        self._under_way.update(new)
        for place, jobs in by_place.items():
            place.submit(jobs)

    def _settled(self, key: Key, job: Job) -> None:
        assert job.verdict is not None
        del self._under_way[key]
        self._cache.put(key, job.verdict)
        if job.started is not None:
            self._metrics.queue.add(job.item.verifier, job.started - job.arrived)
            self._metrics.check.add(job.item.verifier, job.verdict.elapsed_ms / 1000)

    async def _check_inline(
        self, items: Sequence[Item], outcomes: list[_Outcome], wait: Wait
    ) -> None:
        """Do the inline checks here, and if they are many with the help of idle workers."""
        todo = [at for at, outcome in enumerate(outcomes) if outcome is None]
        pieces = deque(todo[at : at + _PIECE] for at in range(0, len(todo), _PIECE))
        lent: list[tuple[list[int], Share]] = []
        while pieces:
            while len(pieces) > 1 and (share := self._lent(items, pieces[-1])) is not None:
                lent.append((pieces.pop(), share))
            await self._check_here(items, pieces.popleft(), outcomes, wait)
            if pieces:
                await asyncio.sleep(0)
        for piece, share in lent:
            if (verdicts := await share.done) is None:
                await self._check_here(items, piece, outcomes, wait)
            else:
                for at, verdict in zip(piece, verdicts, strict=True):
                    outcomes[at] = verdict

    def _lent(self, items: Sequence[Item], piece: Sequence[int]) -> Share | None:
        share = Share([items[at] for at in piece])
        return share if self._lend(share) else None

    async def _check_here(
        self,
        items: Sequence[Item],
        piece: Sequence[int],
        outcomes: list[_Outcome],
        wait: Wait,
    ) -> None:
        turn = before = time.monotonic()
        for at in piece:
            item = items[at]
            outcomes[at] = self._inline(item, wait)
            now = time.monotonic()
            self._metrics.check.add(item.verifier, now - before)
            if now - turn > _TURN:
                await asyncio.sleep(0)
                turn = now = time.monotonic()
            before = now

    def _inline(self, item: Item, wait: Wait) -> _Outcome:
        route = self._routes[item.verifier]
        assert route.inline is not None
        try:
            return route.inline(item)
        except Exception:  # noqa: BLE001 - workers find out who is to blame for it
            job = Job(item)
            wait.join(job)
            route.place.submit([job])
            return job

    def _conclude(
        self, items: Sequence[Item], outcomes: Sequence[_Outcome], arrived: float
    ) -> list[Verdict]:
        verdicts = []
        for item, outcome in zip(items, outcomes, strict=True):
            verdict = outcome.verdict if isinstance(outcome, Job) else outcome
            assert verdict is not None
            if verdict.id != item.id or verdict.verifier != item.verifier:  # An equal item's.
                verdict = verdict.model_copy(update={"id": item.id, "verifier": item.verifier})
            verdicts.append(verdict)
        self._metrics.told(verdicts, time.monotonic() - arrived)
        return verdicts


async def _done_unless(wait: Wait, gone: Callable[[], Awaitable[None]]) -> None:
    """Return once all is settled; Gone if the caller leaves before that."""
    done, leaving = wait.done(), asyncio.ensure_future(gone())
    try:
        await asyncio.wait({done, leaving}, return_when=asyncio.FIRST_COMPLETED)
    finally:
        leaving.cancel()
    if not done.done():
        raise Gone
