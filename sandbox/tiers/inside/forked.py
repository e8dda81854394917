"""The processes of one program, as the supervisor sees and ends them.

The program's first process is the warm interpreter's child, so what becomes of it is told over the
link to that (see zygote.py).
"""

import contextlib
import json
import os
import resource
import select
import signal
import socket
import time
from abc import ABC, abstractmethod
from collections.abc import Iterable
from typing import Any

from sandbox.tiers.inside import usage
from sandbox.tiers.inside.place import Fault

_PACKET = 4096
_TASKS = ("/sys/fs/cgroup/pids.current", "/sys/fs/cgroup/pids/pids.current")
_GONE_WITHIN = 5.0
_GLANCE = 0.001


class Forked(ABC):
    """Of a program that the warm interpreter is about to fork."""

    def __init__(self, link: socket.socket, forker: int) -> None:
        self._link = link
        self._forker = forker
        self._first: int = self._heard()["first"]
        self._cleared: dict[str, Any] | None = None
        self.signal = link.fileno()

    @abstractmethod
    def running(self) -> Iterable[int]:
        """As `Processes`."""

    @abstractmethod
    def ended(self) -> float:
        """As `Processes`."""

    @abstractmethod
    def clear(self) -> int:
        """As `Processes`."""

    def abandon(self) -> None:
        """Clear, if that has not been done."""
        if self._cleared is None:
            with contextlib.suppress(Fault):
                self.clear()

    def _others(self, *own: int) -> Iterable[int]:
        """Numbers of all processes but these."""
        names = filter(str.isdigit, os.listdir("/proc"))
        return (int(name) for name in names if int(name) not in own)

    def _kill_first(self) -> None:
        with contextlib.suppress(ProcessLookupError):
            os.kill(self._first, signal.SIGKILL)

    def _has_ended(self) -> bool:
        return bool(select.select([self._link], [], [], 0)[0])

    def _heard(self) -> dict[str, Any]:
        """What the warm interpreter says next; the slot ends if it has gone."""
        message = self._link.recv(_PACKET)
        if not message:
            os._exit(1)
        content: dict[str, Any] = json.loads(message)
        return content


class Nested(Forked):
    """In a process namespace of their own, all of which dies with its first process."""

    _before: float | None = None

    def running(self) -> Iterable[int]:
        """As `Processes`."""
        return self._others(os.getpid(), self._forker, self._first)

    def ended(self) -> float:
        """As `Processes`."""
        if self._before is None:
            self._before = usage.ended_below(self._forker)
        if self._cleared is None:
            return usage.ended_below(self._forker)
        return self._before + float(self._cleared["cpu"])

    def clear(self) -> int:
        """As `Processes`."""
        ended = self._has_ended()
        if not ended:
            self._kill_first()
        status: int = self._heard()["status"]
        killed = ended and status == signal.SIGKILL and usage.is_ending(self._first)
        self._kill_first()
        self._cleared = self._heard()
        if killed:
            raise Fault("the first process of the program's namespace was killed")
        return status


class Mingled(Forked):
    """Among ours in a container, where they alone are of one user; orphans become our children."""

    def __init__(self, user: int, link: socket.socket, forker: int) -> None:
        super().__init__(link, forker)
        self._user = user

    def running(self) -> Iterable[int]:
        """As `Processes`."""
        return self._others(*self._ours)

    @property
    def _ours(self) -> tuple[int, ...]:
        return (1, os.getpid(), self._forker)

    def ended(self) -> float:
        """As `Processes`."""
        used = resource.getrusage(resource.RUSAGE_CHILDREN)
        return used.ru_utime + used.ru_stime + usage.ended_below(self._forker)

    def clear(self) -> int:
        """As `Processes`."""
        if not self._has_ended():
            self._kill_first()
        status: int = self._heard()["status"]
        self._cleared = self._heard()
        until = time.monotonic() + _GONE_WITHIN
        if _tasks() is None or not self._alone():
            _kill_all_of(self._user)
        while not self._alone():
            if time.monotonic() > until:
                raise Fault("processes of the program remain")
            time.sleep(_GLANCE)
        return status

    def _alone(self) -> bool:
        """Whether none but ours are left, which a listing of /proc would not tell for sure."""
        with contextlib.suppress(ChildProcessError):
            while os.waitpid(-1, os.WNOHANG)[0] not in (0, self._forker):
                continue
        count = _tasks()
        if count is None:
            return not any(True for _ in self.running())
        return count == sum(len(os.listdir(f"/proc/{pid}/task")) for pid in self._ours)


def _tasks() -> int | None:
    """Processes and threads in this container, by its own control group."""
    for path in _TASKS:
        with contextlib.suppress(OSError), open(path) as file:
            return int(file.read())
    return None


def _kill_all_of(user: int) -> None:
    """Kill each process of a user at once, by one that none of them can kill or stop.

    Its effective user alone is theirs: so it may send to them, and they not to it, nor it to us.
    """
    pid = os.fork()
    if pid == 0:
        try:
            other = user + 1  # Nobody's in this container.
            os.setresuid(other, user, other)
            os.kill(-1, signal.SIGKILL)
        finally:
            os._exit(0)
    os.waitpid(pid, 0)
