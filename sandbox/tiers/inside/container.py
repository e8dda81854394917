"""The first process of a slot's container: passes on what the service and the supervisor say.

No descriptor comes into a container, so all travels as frames over two streams. Here it becomes
what the supervisor, its child, expects (see supervisor.py); both of them, and the warm interpreter
below, are root in the container, and programs are another user.

In: an order, with the program's input as its last part; while it runs, `channel` with one part for
the program, or `stop`. Out: `ready` with the memory in use; `channel` with one part of the
program's, empty at its end; at the end `clean`, whether nothing of it is left, with its report as
the part. The container ends with the stream in, or with the supervisor.
"""

import contextlib
import json
import os
import select
import socket
from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any

from sandbox.tiers.inside import frames, kernel, supervisor, warm
from sandbox.tiers.inside.forked import Mingled
from sandbox.tiers.inside.wiped import Wiped

IN, OUT = 30, 31
_CHUNK = 2**16
_PACKET = 4096
_COUNTERS = (("/sys/fs/cgroup/cpu.stat", 10**6), ("/sys/fs/cgroup/cpuacct/cpuacct.usage", 10**9))
_KILLS = ("/sys/fs/cgroup/memory.events", "/sys/fs/cgroup/memory/memory.oom_control")
_USAGE = ("/sys/fs/cgroup/memory.current", "/sys/fs/cgroup/memory/memory.usage_in_bytes")


def main() -> None:
    """Serve runs; returns only in a program's process."""
    warm.guard()
    assert os.getpid() == 1, "the container has a first process that is not ours"
    user = int(os.environ.pop(warm.USER))
    control, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    if os.fork() == 0:
        control.close()
        os.close(IN)
        os.close(OUT)
        kernel.adopt_orphans()
        return supervisor.serve(theirs, Wiped(user), partial(Mingled, user))
    theirs.close()
    _say({**_heard(control), "memory": _used()})
    counter, scale = next(
        ((os.open(path, os.O_RDONLY), scale) for path, scale in _COUNTERS if os.path.exists(path)),
        (IN, 0),
    )
    kills = next((os.open(path, os.O_RDONLY) for path in _KILLS if os.path.exists(path)), None)
    while True:
        header, parts = _hear()
        if "argv" not in header:  # Meant for a run that has ended meanwhile.
            continue
        order = header | {"usage_scale": scale, "bounded": kills is not None}
        _Run(control, order, parts).follow(counter, counter if kills is None else kills)


def _used() -> int:
    for path in _USAGE:
        with contextlib.suppress(OSError), open(path) as file:
            return int(file.read())
    return 0


def _heard(control: socket.socket) -> dict[str, Any]:
    """What the supervisor says next; without it there is nothing more to do."""
    message = control.recv(_PACKET)
    if not message:
        os._exit(1)
    content: dict[str, Any] = json.loads(message)
    return content


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
    """One run, between the supervisor and the streams."""

    def __init__(
        self, control: socket.socket, order: Mapping[str, Any], parts: Sequence[bytes]
    ) -> None:
        self._control = control
        self._ours, self._theirs = socket.socketpair()
        self._channel = socket.socketpair() if order["channel"] else None
        self._stdin = os.memfd_create("stdin", os.MFD_CLOEXEC)
        left = memoryview(parts[-1])
        while left:
            left = left[os.write(self._stdin, left) :]
        os.lseek(self._stdin, 0, os.SEEK_SET)
        self._order = frames.frame(dict(order), parts[:-1])
        self._report = bytearray()

    def follow(self, counter: int, kills: int) -> None:
        """Have it run, pass on what is said meanwhile, and tell its report."""
        given = [self._theirs.fileno(), self._stdin, counter, kills]
        if self._channel is not None:
            given.append(self._channel[1].fileno())
        socket.send_fds(self._control, [b"run"], given)
        self._theirs.close()
        os.close(self._stdin)
        if self._channel is not None:
            self._channel[1].close()
        with contextlib.suppress(OSError):
            self._ours.sendall(self._order)
        self._pass_on()
        ended = _heard(self._control)
        self._ours.close()
        if self._channel is not None:
            self._channel[0].setblocking(False)
            while self._forward(self._channel[0].fileno()):
                continue
            self._channel[0].close()
        _say(ended, bytes(self._report))

    def _pass_on(self) -> None:
        """Until the report is there."""
        poll = select.poll()
        for descriptor in (IN, self._ours.fileno()):
            poll.register(descriptor, select.POLLIN)
        if self._channel is not None:
            poll.register(self._channel[0].fileno(), select.POLLIN)
        while True:
            for descriptor, _ in poll.poll():
                if descriptor == IN:
                    self._obey()
                elif not self._forward(descriptor):
                    poll.unregister(descriptor)
                    if descriptor == self._ours.fileno():
                        return

    def _obey(self) -> None:
        header, parts = _hear()
        with contextlib.suppress(OSError):  # The program has closed its end, or ended.
            if "stop" in header:
                self._ours.shutdown(socket.SHUT_WR)
            elif self._channel is not None:
                self._channel[0].sendall(parts[0])

    def _forward(self, descriptor: int) -> bool:
        """Take from the supervisor or the program; False at the end."""
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
