"""The first process of a slot's container: a warm interpreter that forks an init for each program.

As supervisor.py, where no namespaces can be made and no descriptor comes in: all travels as frames
over two streams.

In: an order, with the program's input as its last part; while it runs, `channel` with one part for
the program, or `stop`. Out: `ready` with the memory in use; `channel` with one part of the
program's, empty at its end; at the end `status`, with the init's report as its part. The container
ends with the stream in.
"""

import contextlib
import os
import select
import socket
import sys
from collections.abc import Mapping, Sequence
from typing import Any

from sandbox.tiers.inside import frames, init, warm
from sandbox.tiers.inside.wiped import Wiped

IN, OUT = 30, 31
_CHUNK = 2**16
_COUNTERS = (("/sys/fs/cgroup/cpu.stat", 10**6), ("/sys/fs/cgroup/cpuacct/cpuacct.usage", 10**9))
_KILLS = ("/sys/fs/cgroup/memory.events", "/sys/fs/cgroup/memory/memory.oom_control")
_USAGE = ("/sys/fs/cgroup/memory.current", "/sys/fs/cgroup/memory/memory.usage_in_bytes")


def main() -> None:
    """Serve runs; returns only in a program's process."""
    warm.guard()
    assert os.getpid() == 1, "the container has a first process that is not ours"
    counter, scale = next(
        ((os.open(path, os.O_RDONLY), scale) for path, scale in _COUNTERS if os.path.exists(path)),
        (IN, 0),
    )
    kills = next((os.open(path, os.O_RDONLY) for path in _KILLS if os.path.exists(path)), None)
    proc = os.open("/proc", os.O_PATH | os.O_DIRECTORY)
    rules = warm.rules()
    user = int(os.environ.pop(warm.USER))
    warm.warm_up()
    _say({"ready": sys.version.split()[0], "memory": _used()})
    while True:
        header, parts = _hear()
        if "argv" not in header:  # Meant for a run that has ended meanwhile.
            continue
        order = header | {"usage_scale": scale, "bounded": kills is not None}
        run = _Run(order, parts)
        pid = os.fork()
        if pid == 0:
            given = run.given(counter, counter if kills is None else kills)
            init.attend(given, Wiped(user), proc, rules)
            return
        run.follow(pid)


def _used() -> int:
    for path in _USAGE:
        with contextlib.suppress(OSError), open(path) as file:
            return int(file.read())
    return 0


def _say(header: Mapping[str, Any], *parts: bytes) -> None:
    left = memoryview(frames.frame(dict(header), parts))
    while left:
        left = left[os.write(OUT, left) :]


def _hear() -> tuple[dict[str, Any], list[bytes]]:
    """The next frame in; there is none once the service has gone, and nothing more to do."""
    try:
        return frames.receive(lambda size: os.read(IN, size))
    except EOFError:
        os._exit(0)


class _Run:
    """One run, between its init and the streams."""

    def __init__(self, order: Mapping[str, Any], parts: Sequence[bytes]) -> None:
        self._ours, self._theirs = socket.socketpair()
        self._channel = socket.socketpair() if order["channel"] else None
        self._stdin = os.memfd_create("stdin", os.MFD_CLOEXEC)
        os.write(self._stdin, parts[-1])
        os.lseek(self._stdin, 0, os.SEEK_SET)
        self._order = frames.frame(dict(order), parts[:-1])
        self._report = bytearray()

    def given(self, counter: int, kills: int) -> list[int]:
        """In the init: the descriptors it attends to."""
        self._ours.close()
        given = [self._theirs.detach(), self._stdin, counter, kills]
        if self._channel is not None:
            self._channel[0].close()
            given.append(self._channel[1].detach())
        return given

    def follow(self, pid: int) -> None:
        """Pass on what is said, until the init has ended; then tell its report."""
        self._theirs.close()
        os.close(self._stdin)
        if self._channel is not None:
            self._channel[1].close()
        with contextlib.suppress(OSError):
            self._ours.sendall(self._order)
        self._pass_on(pid)
        _, status = os.waitpid(pid, 0)
        while part := self._ours.recv(_CHUNK):
            self._report += part
        self._ours.close()
        if self._channel is not None:
            self._channel[0].setblocking(False)
            while self._forward(self._channel[0].fileno()):
                continue
            self._channel[0].close()
        _say({"status": status}, bytes(self._report))

    def _pass_on(self, pid: int) -> None:
        ended = os.pidfd_open(pid)
        poll = select.poll()
        for descriptor in (ended, IN, self._ours.fileno()):
            poll.register(descriptor, select.POLLIN)
        if self._channel is not None:
            poll.register(self._channel[0].fileno(), select.POLLIN)
        running = True
        while running:
            for descriptor, _ in poll.poll():
                if descriptor == ended:
                    running = False
                elif descriptor == IN:
                    self._obey()
                elif not self._forward(descriptor):
                    poll.unregister(descriptor)
        os.close(ended)

    def _obey(self) -> None:
        header, parts = _hear()
        with contextlib.suppress(OSError):  # The program has closed its end, or ended.
            if "stop" in header:
                self._ours.shutdown(socket.SHUT_WR)
            elif self._channel is not None:
                self._channel[0].sendall(parts[0])

    def _forward(self, descriptor: int) -> bool:
        """Take from the init or the program; False at the end."""
        if descriptor == self._ours.fileno():
            part = self._ours.recv(_CHUNK)
            self._report += part
            return bool(part)
        assert self._channel is not None
        try:
            part = self._channel[0].recv(_CHUNK)
        except OSError:
            part = b""
        _say({"channel": True}, part)
        return bool(part)
