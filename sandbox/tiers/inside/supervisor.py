"""The first process of a slot: trusted, it holds each program to its limits and says how it ended.

The program itself is forked from the slot's warm interpreter (zygote.py), which knows of no other
program: what went in and came out before is in this process alone, which programs cannot look
into. They can neither stop nor trace it: it is in no namespace of theirs or not of their user, and
not dumpable.

Control socket (packets): `{ready}` at the start; then one packet a run, with
descriptors [run socket, stdin, the group's processor counter, its table of kills (or stand-ins),
channel if there is one], answered by `{clean}` once the run is over: whether nothing of it is
left. The slot ends when the service closes the socket.
"""

import contextlib
import fcntl
import json
import os
import select
import signal
import socket
import sys
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

from sandbox.tiers.inside import frames, kernel, warm, zygote
from sandbox.tiers.inside.forked import Forked, Nested
from sandbox.tiers.inside.place import Fault, Fresh, taken
from sandbox.tiers.inside.watch import Stream, Watch

CONTROL = "SANDBOX_CONTROL"
Started = Callable[[socket.socket, int], Forked]
"""From the link to the warm interpreter, and its process: a program's, as it is being forked."""

_PACKET = 4096
_MOST_DESCRIPTORS = 5
_MUCH = 2**20
"""Bytes of a report from which on memory is given back after a run."""


def main() -> None:
    """Serve the service, in namespaces of the slot's own; returns only in a program's process."""
    warm.guard()
    descriptor = int(os.environ.pop(CONTROL))
    control = socket.socket(fileno=fcntl.fcntl(descriptor, fcntl.F_DUPFD_CLOEXEC, 32))
    os.close(descriptor)
    _forbid_user_namespaces()
    serve(control, Fresh(), Nested)


def _forbid_user_namespaces() -> None:
    with open("/proc/sys/user/max_user_namespaces", "w") as file:
        file.write("0")


def serve(control: socket.socket, place: Fresh, started: Started) -> None:
    """Serve runs; returns only in a program's process."""
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    forker = os.fork()
    if forker == 0:
        control.close()
        ours.close()
        zygote.serve(theirs, place)
        return
    theirs.close()
    _end_with(forker)
    if ours.recv(_PACKET):
        control.send(json.dumps({"ready": sys.version.split()[0]}).encode())
        while _serve(control, ours, place, partial(started, ours, forker)):
            pass
    os._exit(0)


def _end_with(forker: int) -> None:
    """End as soon as the warm interpreter has: a program's processes may hold the link to it."""

    def look(*_: object) -> None:
        with contextlib.suppress(ChildProcessError):
            if os.waitpid(forker, os.WNOHANG)[0] == 0:
                return
        os._exit(1)

    signal.signal(signal.SIGCHLD, look)


def _serve(
    control: socket.socket, link: socket.socket, place: Fresh, start: Callable[[], Forked]
) -> bool:
    """One run; False if the service, or the warm interpreter, has gone."""
    message, descriptors, _, _ = socket.recv_fds(control, _PACKET, _MOST_DESCRIPTORS)
    if not message:
        return False
    run = _Run(link, start, descriptors)
    try:
        size = run.carry_out()
    finally:
        run.close()
    if size > _MUCH:
        kernel.give_back_memory()
    control.send(json.dumps({"clean": place.clean()}).encode())
    return True


class _Run:
    """One program, from its order to its report."""

    def __init__(
        self, link: socket.socket, start: Callable[[], Forked], descriptors: Sequence[int]
    ) -> None:
        self._link = link
        self._start = start
        self._stream = socket.socket(fileno=descriptors[0])
        self._stdin = descriptors[1]
        self._counters = descriptors[2:4]
        self._channel = list(descriptors[4:])
        self._gate, self._theirs = socket.socketpair()

    def carry_out(self) -> int:
        """Have it run, and report; the size of the report in bytes."""
        processes = None
        try:
            order = frames.receive_header(self._stream.recv)
            limit = order["limits"]["output"]
            streams = (Stream(limit), Stream(limit))
            processes = self._forked(streams)
            self._gate.sendall(zygote.packed(order))
            content = self._report(order, processes, streams)
        except (OSError, EOFError, Fault) as fault:
            content = frames.frame({"fault": f"{type(fault).__name__}: {fault}"}, [])
            if processes is not None:
                processes.abandon()
        with contextlib.suppress(OSError):  # The service no longer wants to know.
            self._stream.sendall(content)
        return len(content)

    def _forked(self, streams: tuple[Stream, Stream]) -> Forked:
        """The program's processes, in their first steps."""
        given = [
            self._stream.fileno(), self._theirs.fileno(), self._stdin,
            *(stream.theirs for stream in streams), *self._channel,
        ]  # fmt: skip
        self._link.send(b"run")
        processes = self._start()
        socket.send_fds(self._link, [b"given"], given)
        for stream in streams:
            os.close(stream.theirs)
        while self._channel:  # The program's alone from now on, and so closed when it has ended.
            os.close(self._channel.pop())
        self._theirs.close()
        return processes

    def _report(
        self, order: dict[str, Any], processes: Forked, streams: tuple[Stream, Stream]
    ) -> bytes:
        homes: list[int] = []
        try:
            told = self._told(processes, homes)
            watch = Watch(order, self._stream, processes, streams, self._counters)
            report, outputs = watch.end(told)
            kept = taken(homes[0], order["keep"]) if homes else {}
        finally:
            for descriptor in homes:
                os.close(descriptor)
            for stream in streams:
                stream.close()
        return frames.frame(report | {"kept": list(kept)}, [*outputs, *kept.values()])

    def _told(self, processes: Forked, homes: list[int]) -> bytes:
        """What the program's process says at its start; its directory, if files are wanted."""
        waited: list[int] = [self._gate.fileno(), processes.signal]
        if self._gate.fileno() not in select.select(waited, [], [])[0]:
            return b""
        told, handed, _, _ = socket.recv_fds(self._gate, _PACKET, 1)
        homes += handed
        return self._gate.recv(_PACKET) if handed else told

    def close(self) -> None:
        """Let go of all that came with the order."""
        for end in (self._stream, self._gate, self._theirs):
            end.close()
        for descriptor in (self._stdin, *self._counters, *self._channel):
            os.close(descriptor)
