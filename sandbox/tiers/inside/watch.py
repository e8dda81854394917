"""Holding one program to its limits, from its start to its end, and telling how it ended.

It waits for processes, never for a pipe's end, which a program's children could put off.
"""

import os
import select
import socket
import time
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Protocol

from sandbox.tiers.inside import program, usage
from sandbox.tiers.inside.place import Fault

_CHUNK = 65536


class Processes(Protocol):
    """All processes of one program."""

    @property
    def signal(self) -> int:
        """A descriptor that can be read once the first of them has ended."""
        ...

    def running(self) -> Iterable[int]:
        """Numbers of those that run now, in our /proc."""
        ...

    def ended(self) -> float:
        """Processor time (s) of those that ended and were waited for; it only grows."""
        ...

    def clear(self) -> int:
        """Kill and reap all; the wait status of the first. Fault if that is not its own."""
        ...


class Stream:
    """What the program writes to one of its outputs, up to `limit` bytes and one more."""

    def __init__(self, limit: int) -> None:
        self.ours, self.theirs = os.pipe()
        os.set_blocking(self.ours, False)
        self.content = bytearray()
        self.ended = False
        self._limit = limit

    @property
    def over(self) -> bool:
        """Whether it wrote more than it may."""
        return len(self.content) > self._limit

    def read(self) -> bool:
        """Take what is there now; False if nothing is, or enough was taken."""
        try:
            part = os.read(self.ours, min(_CHUNK, self._limit + 1 - len(self.content)))
        except BlockingIOError:
            return False
        self.content += part
        self.ended = not part
        return bool(part) and not self.over

    def close(self) -> None:
        """Let go of our end."""
        os.close(self.ours)


class Watch:
    """Over one program. `order` is as in frames.py; `counters`: processor time, and kills."""

    def __init__(
        self,
        order: Mapping[str, Any],
        stream: socket.socket,
        processes: Processes,
        streams: tuple[Stream, Stream],
        counters: Sequence[int],
    ) -> None:
        self._limits = order["limits"]
        self._stream = stream
        self._processes = processes
        self._streams = streams
        self._meter = usage.Meter(counters[0], order["usage_scale"], processes)
        self._kills = usage.Kills(counters[1]) if order["bounded"] else None
        self._started = 0.0
        self._look = 0.0

    def end(self, told: bytes) -> tuple[dict[str, Any], list[bytes]]:
        """Report and outputs (see frames), once all of the program has gone.

        `told` is what it said at its start.
        """
        if told != program.STARTED:
            raise Fault(told.decode(errors="replace") or "it ended before its start")
        self._started = self._look = time.monotonic()
        reason = self._hold()
        wall = time.monotonic() - self._started
        status = self._processes.clear()
        for stream in self._streams:
            while stream.read():
                pass
        processor = self._meter.read()
        report = {
            "ending": self._ending(reason, status, processor),
            "exit_code": os.WEXITSTATUS(status) if os.WIFEXITED(status) else None,
            "signal": os.WTERMSIG(status) if os.WIFSIGNALED(status) else None,
            "wall": wall,
            "cpu": processor,
        }
        limit = self._limits["output"]
        return report, [bytes(stream.content[:limit]) for stream in self._streams]

    def _hold(self) -> str | None:
        """Wait for the end of the program's first process; or why it is to end now."""
        poll = select.poll()
        poll.register(self._processes.signal, select.POLLIN)
        poll.register(self._stream, select.POLLIN)
        for stream in self._streams:
            poll.register(stream.ours, select.POLLIN)
        while True:
            reason, pause = self._exceeded()
            if reason:
                return reason
            for descriptor, _ in poll.poll(1000 * pause):
                if descriptor == self._processes.signal:
                    return None
                if descriptor == self._stream.fileno():
                    return "stopped"
                self._drain(descriptor, poll)

    def _drain(self, descriptor: int, poll: select.poll) -> None:
        """Take from an output; once it has come to its end, no longer."""
        stream = next(one for one in self._streams if one.ours == descriptor)
        stream.read()
        if stream.ended:
            poll.unregister(descriptor)

    def _exceeded(self) -> tuple[str | None, float]:
        """The limit the program is over, and for how long (s) not to look again."""
        now = time.monotonic()
        left = self._started + self._limits["wall"] - now
        if any(stream.over for stream in self._streams):
            return "output", 0
        if left <= 0:
            return "wall", 0
        if now >= self._look:
            spare = self._limits["cpu"] - self._meter.read()
            if spare <= 0:
                return "cpu", 0
            if self._over_memory():
                return "memory", 0
            self._look = now + min(usage.GLANCE, max(usage.SHORTEST, spare / usage.PROCESSORS))
        return None, min(left, self._look - now)

    def _over_memory(self) -> bool:
        """Whether the kernel had to kill for memory; or where it does not bound it, should."""
        if self._kills is not None:
            return self._kills.read() > 0
        return bool(usage.memory(self._processes.running()) > self._limits["memory"])

    def _ending(self, reason: str | None, status: int, processor: float) -> str:
        if any(stream.over for stream in self._streams):
            return "output"
        if reason == "memory" or (self._kills is not None and self._kills.read()):
            return "memory"
        if reason == "wall":
            return reason
        if processor >= self._limits["cpu"]:
            return "cpu"
        return "exited" if os.WIFEXITED(status) else "signalled"
