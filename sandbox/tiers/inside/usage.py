"""What a program has used so far, as far as it can be told from outside."""

import os
from collections.abc import Iterable
from typing import Protocol

PROCESSORS = os.cpu_count() or 1
SHORTEST, GLANCE = 0.02, 0.1
"""How long (s) not to look at a program, at least and at most."""

_TICK = os.sysconf("SC_CLK_TCK")
_ENDING = 4  # PF_EXITING of Linux.


class Processes(Protocol):
    """Those of a program (see watch.py)."""

    def running(self) -> Iterable[int]:
        """Numbers in our /proc."""
        ...

    def ended(self) -> float:
        """Seconds of those that ended."""
        ...


class Meter:
    """Processor time (s) of the program's processes since the meter was made.

    Read from a control group's counter (`scale` counts to a second, in the first line's last
    word); without one (0), from the processes themselves, where children that nobody waited for
    are missed.
    """

    def __init__(self, counter: int, scale: int, processes: Processes) -> None:
        self._counter = counter
        self._scale = scale
        self._processes = processes
        self._most = 0.0
        self._start = self._count()

    def read(self) -> float:
        """Seconds; never less than before, when processes were there that have been killed."""
        self._most = max(self._most, self._count() - self._start)
        return self._most

    def _count(self) -> float:
        if not self._scale:
            return self._processes.ended() + sum(map(_running, self._processes.running()))
        line = os.pread(self._counter, 128, 0).splitlines()[0]
        return int(line.split()[-1]) / self._scale


class Kills:
    """How many processes were killed for memory since this was made, by a group's table."""

    def __init__(self, table: int) -> None:
        self._table = table
        self._start = self._count()

    def read(self) -> int:
        """The number."""
        return self._count() - self._start

    def _count(self) -> int:
        for line in os.pread(self._table, 1024, 0).splitlines():
            name, _, number = line.partition(b" ")
            if name == b"oom_kill":
                return int(number)
        return 0


def memory(processes: Iterable[int]) -> int:
    """Bytes of processes together, shared ones counted once."""
    return sum(map(_proportional, processes))


def ended_below(pid: int) -> float:
    """Seconds of the children that a process waited for; 0 if it has gone."""
    return sum(map(int, _stat(pid)[13:15])) / _TICK


def is_ending(pid: int) -> bool:
    """Whether a process has begun to end, or has ended."""
    words = _stat(pid)
    return not words or bool(int(words[6]) & _ENDING)


def _running(pid: int) -> float:
    """Seconds of a process and of the children it waited for; 0 if it has gone."""
    return sum(map(int, _stat(pid)[11:15])) / _TICK


def _stat(pid: int) -> list[bytes]:
    """What /proc says of a process from its state on; nothing if it has gone."""
    try:
        with open(f"/proc/{pid}/stat", "rb") as file:
            return file.read().rpartition(b")")[2].split()
    except OSError:
        return []


def _proportional(pid: int) -> int:
    try:
        with open(f"/proc/{pid}/smaps_rollup", "rb") as file:
            lines = file.read().splitlines()
    except OSError:
        return 0
    return sum(1024 * int(line.split()[1]) for line in lines if line.startswith(b"Pss:"))
