"""What a program has used so far, as its init can tell."""

import os
import resource
from collections.abc import Iterator

PROCESSORS = os.cpu_count() or 1
SHORTEST, GLANCE = 0.02, 0.1
"""How long (s) not to look at a program, at least and at most."""

_TICK = os.sysconf("SC_CLK_TCK")


class Meter:
    """Processor time (s) of the program's processes since the meter was made.

    Read from a control group's counter (`scale` counts to a second, in the first line's last
    word); without one (0), from the processes themselves, where children that nobody waited for
    are missed.
    """

    def __init__(self, counter: int, scale: int) -> None:
        self._counter = counter
        self._scale = scale
        self._start = self._count()

    def read(self) -> float:
        """Seconds, never less than the ended processes took."""
        return max(self._count() - self._start, _ended())

    def _count(self) -> float:
        if not self._scale:
            return _ended() + sum(map(_running, _processes()))
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


def memory() -> int:
    """Bytes of the program's processes together, shared ones counted once."""
    return sum(map(_proportional, _processes()))


def _ended() -> float:
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def _processes() -> Iterator[int]:
    """All but the init."""
    return (int(name) for name in os.listdir("/proc") if name.isdigit() and name != "1")


def _running(pid: int) -> float:
    """Seconds of a process and of the children it waited for; 0 if it has gone."""
    try:
        with open(f"/proc/{pid}/stat", "rb") as file:
            words = file.read().rpartition(b")")[2].split()
    except OSError:
        return 0.0
    return sum(map(int, words[11:15])) / _TICK


def _proportional(pid: int) -> int:
    try:
        with open(f"/proc/{pid}/smaps_rollup", "rb") as file:
            lines = file.read().splitlines()
    except OSError:
        return 0
    return sum(1024 * int(line.split()[1]) for line in lines if line.startswith(b"Pss:"))
