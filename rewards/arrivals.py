"""The bound on how long a request's body may take to arrive.

One timer serves all requests: the body of nearly every one is there at once, and need not pay for a
timer of its own.
"""

import asyncio
import time
from types import TracebackType
from typing import Any, Self

_SWEEP = 1.0


class Arrivals:
    """Cancels tasks that wait for a body for more than `within` seconds; an async context."""

    def __init__(self, within: float) -> None:
        self.within = within
        self._since: dict[asyncio.Task[Any], float] = {}  # Oldest first.
        self._late: set[asyncio.Task[Any]] = set()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._sweeper: asyncio.Task[None] | None = None

    def begin(self) -> asyncio.Task[Any]:
        """The current task waits for a body from now on, until `end`."""
        task = asyncio.current_task(self._loop)
        assert task is not None
        self._since[task] = time.monotonic()
        return task

    def end(self, task: asyncio.Task[Any]) -> bool:
        """It waits no longer; whether it was cancelled for being late."""
        self._since.pop(task, None)
        if task not in self._late:
            return False
        self._late.remove(task)
        task.uncancel()
        return True

    async def __aenter__(self) -> Self:
        self._loop = asyncio.get_running_loop()
        self._sweeper = asyncio.create_task(self._sweep())
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        fault: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        assert self._sweeper is not None
        self._sweeper.cancel()
        await asyncio.gather(self._sweeper, return_exceptions=True)

    async def _sweep(self) -> None:
        while True:
            await asyncio.sleep(_SWEEP)
            over = time.monotonic() - self.within
            late = [task for task, since in self._since.items() if since < over]
            for task in late:
                del self._since[task]
                self._late.add(task)
                task.cancel()
