"""The init of one program: process 1 of its namespace, trusted, and out of its reach.

It makes the program's place, starts it, holds it to its limits, kills all that is left when it has
ended, and alone says how. The program can neither stop nor trace it: its signals do not reach a
namespace's first process, which is not dumpable. It waits for processes, never for a pipe's end,
which a program's children could put off.
"""

import contextlib
import os
import select
import signal
import socket
import time
from collections.abc import Mapping, Sequence
from typing import Any

from sandbox.tiers.inside import frames, program, usage
from sandbox.tiers.inside.place import Fault, Fresh

_CHUNK = 65536


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


def attend(descriptors: Sequence[int], place: Fresh, proc: int, rules: bytes) -> None:
    """Run what is ordered on the first descriptor; returns only in the program's process."""
    stream = socket.socket(fileno=descriptors[0])
    try:
        order, files = frames.receive(stream.recv)
        place.enter(order["limits"]["files"] + sum(map(len, files)))
        place.put(dict(zip(order["files"], files, strict=True)))
        limit = order["limits"]["output"]
        streams = (Stream(limit), Stream(limit))
        gate, theirs = os.pipe()
        pid = os.fork()
        if pid == 0:
            channel = descriptors[4] if order["channel"] else None
            given = program.Streams(
                descriptors[1], streams[0].theirs, streams[1].theirs, theirs, channel
            )
            stream.detach()
            return _start(order, given, place, proc, rules)
        for descriptor in (theirs, *descriptors[1:2], *descriptors[4:]):
            os.close(descriptor)
        for one in streams:
            os.close(one.theirs)
        report, parts = Watch(order, stream, pid, streams, descriptors[2:4]).end(gate, place)
        stream.sendall(frames.frame(report, parts))
        code = place.leave()
    except BrokenPipeError:  # The service no longer wants to know.
        code = place.leave()
    except (OSError, EOFError, Fault) as fault:
        stream.sendall(frames.frame({"fault": f"{type(fault).__name__}: {fault}"}, []))
        code = 1
    os._exit(code)


def _start(
    order: Mapping[str, Any], given: program.Streams, place: Fresh, proc: int, rules: bytes
) -> None:
    """As `program.prepare`, but a fault is told through the gate."""
    told = os.dup(given.gate)
    try:
        program.prepare(order, given, place, proc, rules)
    except Exception as fault:  # noqa: BLE001 - whatever it is, the program must not run.
        with contextlib.suppress(OSError):  # Closed, once the descriptors have been laid.
            os.write(told, _text(fault))
        with contextlib.suppress(OSError):
            os.write(program.GATE, _text(fault))
        os._exit(1)


def _text(fault: Exception) -> bytes:
    return f"{type(fault).__name__}: {fault}".encode()


class Watch:
    """Over one program, from its start to its end."""

    def __init__(
        self,
        order: Mapping[str, Any],
        stream: socket.socket,
        pid: int,
        streams: tuple[Stream, Stream],
        counters: Sequence[int],
    ) -> None:
        self._order = order
        self._limits = order["limits"]
        self._stream = stream
        self._pid = pid
        self._streams = streams
        self._meter = usage.Meter(counters[0], order["usage_scale"])
        self._kills = usage.Kills(counters[1]) if order["bounded"] else None
        self._started = 0.0
        self._look = 0.0

    def end(self, gate: int, place: Fresh) -> tuple[dict[str, Any], list[bytes]]:
        """Report and parts (see frames), once all processes of the program have gone."""
        told = os.read(gate, _CHUNK)
        if told != program.STARTED:
            raise Fault(told.decode(errors="replace") or "it ended before its start")
        self._started = self._look = time.monotonic()
        reason = self._hold()
        wall = time.monotonic() - self._started
        status = self._clear()
        for stream in self._streams:
            while stream.read():
                pass
        processor = self._meter.read()
        kept = place.take(self._order["keep"])
        report = {
            "ending": self._ending(reason, status, processor),
            "exit_code": os.WEXITSTATUS(status) if os.WIFEXITED(status) else None,
            "signal": os.WTERMSIG(status) if os.WIFSIGNALED(status) else None,
            "wall": wall,
            "cpu": processor,
            "kept": list(kept),
        }
        limit = self._limits["output"]
        outputs = [bytes(stream.content[:limit]) for stream in self._streams]
        return report, [*outputs, *kept.values()]

    def _hold(self) -> str | None:
        """Wait for the end of the program's first process; or why it is to end now."""
        ended = os.pidfd_open(self._pid)
        poll = select.poll()
        poll.register(ended, select.POLLIN)
        poll.register(self._stream, select.POLLIN)
        for stream in self._streams:
            poll.register(stream.ours, select.POLLIN)
        while True:
            reason, pause = self._exceeded()
            if reason:
                return reason
            for descriptor, _ in poll.poll(1000 * pause):
                if descriptor == ended:
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
        return bool(usage.memory() > self._limits["memory"])

    def _clear(self) -> int:
        """Kill and reap every process; the status of the program's first."""
        with contextlib.suppress(ProcessLookupError):
            os.kill(-1, signal.SIGKILL)
        found = None
        while True:
            try:
                pid, status = os.waitpid(-1, 0)
            except ChildProcessError:
                assert found is not None, "the program's first process is a child of its init"
                return found
            if pid == self._pid:
                found = status

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
