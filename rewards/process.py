"""What the kernel tells about a process: the CPU time it used and the memory it holds."""

import os
from dataclasses import dataclass

_TICK = os.sysconf("SC_CLK_TCK")
_PAGE = os.sysconf("SC_PAGE_SIZE")


@dataclass(frozen=True)
class Usage:
    """`cpu` in seconds since its start, `memory` in resident bytes."""

    cpu: float
    memory: int


def usage(pid: int) -> Usage | None:
    """What process `pid` has used; None if it has gone, or where there is no procfs."""
    try:
        with open(f"/proc/{pid}/stat", "rb") as stat:
            fields = stat.read().rpartition(b")")[2].split()
    except OSError:
        return None
    # Counted from the state, field 3 of proc(5): utime 14, stime 15, rss 24.
    return Usage((int(fields[11]) + int(fields[12])) / _TICK, int(fields[21]) * _PAGE)
