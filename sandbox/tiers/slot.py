"""A slot with a warm interpreter, and the rule of when that is replaced.

It is replaced after a number of runs, and after anything out of the ordinary. Its script's name is
fixed (see inside/zygote.py): scripts of other names are run by executing the interpreter.
"""

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any, Protocol

from sandbox.tiers import Program, Run, Talk

SCRIPT = "main.py"


class Warm(Protocol):
    """A warm interpreter in a place of its own, for many runs."""

    broken: bool
    runs: int

    async def ready(self) -> None:
        """Start; SlotLost if it does not."""
        ...

    async def run(self, program: Program, talk: Talk | None, *, script: bool) -> Run:
        """Run a program, as its own script or by executing it; SlotLost makes it broken."""
        ...

    async def end(self) -> None:
        """End it and all in it."""
        ...


class WarmSlot:
    """Runs one program at a time; it mends itself, so it stays of use after a SlotLost."""

    def __init__(
        self, start: Callable[[], Warm], recycle_after: int, closed: Callable[[], None]
    ) -> None:
        self._start = start
        self._recycle_after = recycle_after
        self._closed = closed
        self._warm: Warm | None = None

    async def run(self, program: Program, talk: Talk | None = None) -> Run:
        """As `sandbox.tiers.Slot`."""
        zygote = await self.warm()
        try:
            return await zygote.run(program, talk, script=_is_script(program))
        finally:
            if zygote.broken or zygote.runs >= self._recycle_after:
                await self._drop()

    async def warm(self) -> Warm:
        """Its interpreter; SlotLost if none starts."""
        if self._warm is None:
            self._warm = self._start()
            try:
                await self._warm.ready()
            except BaseException:
                await self._drop()
                raise
        return self._warm

    async def close(self) -> None:
        """As `sandbox.tiers.Slot`."""
        try:
            await self._drop()
        finally:
            self._closed()

    async def _drop(self) -> None:
        zygote, self._warm = self._warm, None
        if zygote is not None:
            await _to_its_end(zygote.end())


async def _to_its_end(work: Coroutine[Any, Any, None]) -> None:
    """Await all of `work`; where we are cancelled meanwhile, that comes after it."""
    task, cancelled = asyncio.ensure_future(work), None
    while not task.done():
        try:
            await asyncio.wait((task,))
        except asyncio.CancelledError as fault:
            cancelled = fault
    task.result()
    if cancelled is not None:
        raise cancelled


def _is_script(program: Program) -> bool:
    return tuple(program.argv[:2]) == ("python", SCRIPT) and SCRIPT in program.files
