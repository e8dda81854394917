"""Items submitted one at a time, gathered into requests.

An item waits `GATHER` seconds for company at most, unless all requests allowed are under way. Items
of different verifiers do not share a request, so that a slow one holds up only its like. What its
caller has given up is not sent; a request that nobody waits for any more is dropped.
"""

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass

from rewards.schema import COMPOSITE, Composite, Entry, Verdict

GATHER = 0.002
"""Seconds: far below any check, and long enough for coroutines woken by one event."""

Outcome = Verdict | ValueError
"""ValueError: the service refuses the item."""


@dataclass(eq=False)
class Ticket:
    """An item on its way; `fault` is why it has no verdict yet, as code and text."""

    item: Entry
    outcome: asyncio.Future[Outcome]
    fault: tuple[str, str] | None = None

    @property
    def verifier(self) -> str:
        """The verifier its verdict names."""
        return COMPOSITE if isinstance(self.item, Composite) else self.item.verifier

    @property
    def wanted(self) -> bool:
        """Whether somebody waits for it still."""
        return not self.outcome.done()

    def settle(self, outcome: Outcome) -> None:
        """Give the outcome to the caller, unless that has gone."""
        if self.wanted:
            self.outcome.set_result(outcome)


class Batcher:
    """Hands tickets to `deliver` in lots of up to `size`, at most `at_once` lots at a time.

    `deliver` settles each ticket of its lot, however long that takes; it is cancelled once none
    is wanted.
    """

    def __init__(
        self, deliver: Callable[[Sequence[Ticket]], Awaitable[None]], size: int, at_once: int
    ) -> None:
        self._deliver = deliver
        self._size = size
        self._at_once = at_once
        self._waiting: dict[str, deque[Ticket]] = {}
        self._under_way: set[asyncio.Task[None]] = set()
        self._timer: asyncio.TimerHandle | None = None

    def put(self, item: Entry) -> Ticket:
        """Take in an item; its ticket's outcome comes in time."""
        loop = asyncio.get_running_loop()
        ticket = Ticket(item, loop.create_future())
        queue = self._waiting.setdefault(ticket.verifier, deque())
        queue.append(ticket)
        if len(queue) >= self._size:
            self._send(ticket.verifier)
        elif self._timer is None:
            self._timer = loop.call_later(GATHER, self._time_is_up)
        return ticket

    async def close(self) -> None:
        """Drop everything, sent or not."""
        if self._timer is not None:
            self._timer.cancel()
        self._waiting.clear()
        for task in self._under_way:
            task.cancel()
        await asyncio.gather(*self._under_way, return_exceptions=True)

    def _time_is_up(self) -> None:
        self._timer = None
        for verifier in list(self._waiting):
            self._send(verifier)

    def _send(self, verifier: str) -> None:
        """Begin to deliver what waits for `verifier`, as far as there is room."""
        queue = self._waiting.pop(verifier)
        while queue and len(self._under_way) < self._at_once:
            if lot := self._lot(queue):
                self._begin(lot)
        if queue:
            self._waiting[verifier] = queue  # Behind the others: by turns.

    def _lot(self, queue: deque[Ticket]) -> list[Ticket]:
        """What goes into the next request: an id comes once, for two callers may use the same."""
        lot: dict[str, Ticket] = {}
        while queue and len(lot) < self._size and queue[0].item.id not in lot:
            ticket = queue.popleft()
            if ticket.wanted:
                lot[ticket.item.id] = ticket
        return list(lot.values())

    def _begin(self, lot: Sequence[Ticket]) -> None:
        task = asyncio.ensure_future(self._deliver(lot))
        self._under_way.add(task)
        task.add_done_callback(self._ended)

        def given_up(outcome: asyncio.Future[Outcome]) -> None:
            if outcome.cancelled() and not any(ticket.wanted for ticket in lot):
                task.cancel()

        for ticket in lot:
            ticket.outcome.add_done_callback(given_up)

    def _ended(self, task: asyncio.Task[None]) -> None:
        self._under_way.discard(task)
        if not task.cancelled():
            task.result()  # A bug of ours is heard of.
        while self._waiting and len(self._under_way) < self._at_once:
            self._send(next(iter(self._waiting)))
