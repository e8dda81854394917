"""The init of one program in a container: trusted, and out of its reach.

It makes the program's place, starts it, holds it to its limits, kills all that is left when it has
ended, and alone says how. The program can neither stop nor trace it, as it is another user's.
"""

import contextlib
import os
import resource
import signal
import socket
from collections.abc import Iterable, Sequence

from sandbox.tiers.inside import frames, program
from sandbox.tiers.inside.place import Fault
from sandbox.tiers.inside.watch import Stream, Watch
from sandbox.tiers.inside.wiped import Wiped

_CHUNK = 65536


def attend(descriptors: Sequence[int], place: Wiped, proc: int, rules: bytes) -> None:
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
            return program.begin(order, given, place, proc, rules)
        for descriptor in (theirs, *descriptors[1:2], *descriptors[4:]):
            os.close(descriptor)
        for one in streams:
            os.close(one.theirs)
        watch = Watch(order, stream, Below(pid), streams, descriptors[2:4])
        report, outputs = watch.end(os.read(gate, _CHUNK))
        kept = place.take(order["keep"])
        content = frames.frame(report | {"kept": list(kept)}, [*outputs, *kept.values()])
        stream.sendall(content)
        code = place.leave()
    except BrokenPipeError:  # The service no longer wants to know.
        code = place.leave()
    except (OSError, EOFError, Fault) as fault:
        stream.sendall(frames.frame({"fault": f"{type(fault).__name__}: {fault}"}, []))
        code = 1
    os._exit(code)


class Below:
    """The processes below this one, of which `first` is the program's first."""

    def __init__(self, first: int) -> None:
        self.signal = os.pidfd_open(first)
        self._first = first

    def running(self) -> Iterable[int]:
        """As `Processes`; all but the container's first and this one."""
        names = filter(str.isdigit, os.listdir("/proc"))
        return (int(name) for name in names if int(name) not in (1, os.getpid()))

    def ended(self) -> float:
        """As `Processes`."""
        used = resource.getrusage(resource.RUSAGE_CHILDREN)
        return used.ru_utime + used.ru_stime

    def clear(self) -> int:
        """As `Processes`."""
        with contextlib.suppress(ProcessLookupError):
            os.kill(-1, signal.SIGKILL)
        found = None
        while True:
            try:
                pid, status = os.waitpid(-1, 0)
            except ChildProcessError:
                assert found is not None, "the program's first process is a child of its init"
                return found
            if pid == self._first:
                found = status
