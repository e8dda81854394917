"""What a tier offers: slots, each running one untrusted program at a time to a sure end.

A run always ends within its wall limit plus a short grace, whatever the program does, and leaves
nothing behind in the slot: no process, file, mount or shared memory. How it ended is told by the
slot's own trusted process, never by the program. A fault of ours is `SlotLost`, never an ending.
"""

from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal, Protocol

Ending = Literal["exited", "signalled", "wall", "cpu", "memory", "output"]
"""How a program ended: by itself, by a signal, or killed at one of its limits."""


class SlotLost(Exception):
    """The slot itself broke; nothing is known about the program. It is replaced, the run retried.

    `reason` is a short code, for metrics.
    """

    def __init__(self, reason: str, detail: str) -> None:
        super().__init__(detail)
        self.reason = reason


class NotOffered(OSError):
    """A tier cannot be had on this machine; the message says why and what to do."""


@dataclass(frozen=True)
class Limits:
    """Bounds of one program; `wall` counts from its start, never from the queue.

    Seconds, bytes, processes and threads.
    """

    wall: float = 10.0
    cpu: float = 10.0
    memory: int = 512 * 2**20
    processes: int = 64
    output: int = 2**20
    files: int = 64 * 2**20


@dataclass(frozen=True)
class Program:
    """What to run: `argv` in a fresh writable directory that holds `files` (plain names, mode 755).

    An `argv` of ("python", FILE, ...) is run by the slot's warm interpreter where the tier has
    one, as `python FILE ...` would run it. `keep` names files to bring back (a compiled binary).
    With `channel`, descriptor 3 of the program is a socket whose other end `talk` gets.
    """

    argv: Sequence[str]
    files: Mapping[str, bytes] = field(default_factory=dict)
    stdin: bytes = b""
    limits: Limits = field(default_factory=Limits)
    keep: Sequence[str] = ()
    channel: bool = False


@dataclass(frozen=True)
class Run:
    """How a program ended and what it left; streams are cut at `limits.output` each.

    Seconds and bytes. `peak` is None where the tier cannot measure it.
    """

    ending: Ending
    exit_code: int | None
    signal: int | None
    stdout: bytes
    stderr: bytes
    wall: float
    cpu: float
    peak: int | None
    kept: Mapping[str, bytes] = field(default_factory=dict)


class Channel(Protocol):
    """Our end of a program's descriptor 3, a byte stream. What comes from it is untrusted."""

    async def read(self, size: int) -> bytes:
        """At most `size` bytes; empty once the program has closed it or ended."""
        ...

    async def write(self, content: bytes) -> None:
        """Send all of it; OSError if the program has closed its end."""
        ...


Talk = Callable[[Channel], Awaitable[None]]


class Slot(Protocol):
    """One place to run programs in; it alone renews what many runs could wear out in it."""

    async def run(self, program: Program, talk: Talk | None = None) -> Run:
        """Run `program` to its end; SlotLost if the slot broke.

        `talk` runs beside a program with a channel and is cancelled when the program ends; the
        program is killed once `talk` returns. Cancelling `run` kills the program.
        """
        ...

    async def close(self) -> None:
        """End the slot and all in it."""
        ...


class Tier(Protocol):
    """A kind of isolation. `enforces` tells, limit by limit, what holds it (for `doctor`)."""

    name: str

    async def slot(self) -> Slot:
        """A fresh slot; SlotLost if none can be made."""
        ...

    def enforces(self) -> Mapping[str, str]:
        """Limit or protection -> what enforces it, or "nothing" (plain words)."""
        ...
