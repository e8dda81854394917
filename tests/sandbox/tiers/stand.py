"""A tier under test, used from tests that are not async: each call runs in the main thread."""

import asyncio
from collections.abc import Awaitable, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeVar

from sandbox.tiers import Limits, Program, Run, Slot, Talk, Tier

T = TypeVar("T")
SMALL = Limits(wall=20.0, cpu=5.0, memory=64 * 2**20, processes=24, output=2**16, files=8 * 2**20)


@dataclass
class Stand:
    """A tier, a slot of it, and the event loop both live in."""

    tier: Tier
    loop: asyncio.AbstractEventLoop = field(default_factory=asyncio.new_event_loop)
    kept: Slot | None = None

    def __post_init__(self) -> None:
        """Nothing hostile is to run where nothing holds it."""
        assert "nothing" not in self.tier.enforces().values()

    @property
    def slot(self) -> Slot:
        """The stand's slot."""
        if self.kept is None:
            self.kept = self.do(self.tier.slot())
        return self.kept

    def do(self, work: Awaitable[T]) -> T:
        """What `work` gives, within a bound."""
        return self.loop.run_until_complete(asyncio.wait_for(work, 120))

    def python(self, source: str, *arguments: str, talk: Talk | None = None, **more: Any) -> Run:
        """The run of a Python program by the warm interpreter."""
        argv = ("python", "main.py", *arguments)
        return self.run(argv, {"main.py": source.encode()}, talk=talk, **more)

    def run(
        self,
        argv: Sequence[str],
        files: dict[str, bytes] | None = None,
        *,
        talk: Talk | None = None,
        limits: Limits = SMALL,
        **more: Any,
    ) -> Run:
        """The run of any program."""
        program = Program(argv, files or {}, limits=limits, channel=talk is not None, **more)
        return self.do(self.slot.run(program, talk))

    def close(self) -> None:
        """End the slot and the loop."""
        if self.kept is not None:
            self.do(self.kept.close())
        self.loop.close()
