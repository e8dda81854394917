"""Control groups: one for each slot, in version 2 or 1, whichever this machine and user can use.

A group bounds what no limit on single processes can: the memory of all together, shared and file
memory included, and their number. Groups of services that have gone are removed by the next.
"""

import asyncio
import os
import signal
import time
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from sandbox.tiers import Limits

_PREFIX = "posttrain-sandbox."
_LEAF = "posttrain-sandbox"
_OVERHEAD = 8 * 2**20  # What a fork's own copies of shared pages take.
_OWN_PROCESSES = 4  # bubblewrap, the supervisor, its zygote and the namespace's first.
_EMPTY_WITHIN = 5.0
_FREED_WITHIN = 2.0


@dataclass(frozen=True)
class Dialect:
    """What a version calls its files. `swap` bounds memory and swap together (1), or swap (2)."""

    name: str
    memory: str
    swap: str
    usage: str
    peak: str
    kills: str
    cached: tuple[str, str]
    counter: str
    counter_scale: int


V1 = Dialect(
    name="v1",
    memory="memory.limit_in_bytes", swap="memory.memsw.limit_in_bytes",
    usage="memory.usage_in_bytes", peak="memory.max_usage_in_bytes", kills="memory.oom_control",
    cached=("total_inactive_file", "total_active_file"),
    counter="cpuacct.usage", counter_scale=10**9,
)  # fmt: skip
V2 = Dialect(
    name="v2",
    memory="memory.max", swap="memory.swap.max",
    usage="memory.current", peak="memory.peak", kills="memory.events",
    cached=("inactive_file", "active_file"),
    counter="cpu.stat", counter_scale=10**6,
)  # fmt: skip


@dataclass(frozen=True)
class Parents:
    """Directories to make groups in, by what they control: memory, pids, cpu, cpuacct."""

    dialect: Dialect
    directories: Mapping[str, Path]


class Group:
    """The control group of one slot: a directory in each hierarchy there is."""

    def __init__(self, parents: Parents, number: int) -> None:
        name = f"{_ours()}{os.getpid()}-{born(os.getpid())}-{number}"
        self._dialect = parents.dialect
        self._at: dict[str, Path] = {}
        for control, parent in parents.directories.items():
            (parent / name).mkdir(exist_ok=True)
            self._at[control] = parent / name
        self._base = 0
        self._bounds: tuple[int, int] | None = None
        self._kills = 0
        self._peak = self._open(self._dialect.peak, os.O_RDWR) if "memory" in self._at else None

    @property
    def joins(self) -> list[Path]:
        """Files to write a process number to."""
        return [directory / "cgroup.procs" for directory in dict.fromkeys(self._at.values())]

    @property
    def controls(self) -> frozenset[str]:
        """What it bounds or counts."""
        return frozenset(self._at)

    def counter(self) -> tuple[int, int] | None:
        """A descriptor of the processor time used, and how many of its counts are a second."""
        if "cpuacct" not in self._at:
            return None
        path = self._at["cpuacct"] / self._dialect.counter
        return os.open(path, os.O_RDONLY | os.O_CLOEXEC), self._dialect.counter_scale

    def watch(self) -> int | None:
        """A descriptor of the table that counts, as `oom_kill`, processes killed for memory."""
        if "memory" not in self._at:
            return None
        return os.open(self._at["memory"] / self._dialect.kills, os.O_RDONLY | os.O_CLOEXEC)

    def settle(self) -> None:
        """What the slot uses now is its own; programs are charged for what they add."""
        self._base = self._used()

    async def freed(self) -> bool:
        """Whether the slot uses no more than its own: the kernel frees some things late."""
        until = time.monotonic() + _FREED_WITHIN
        while self._used() > self._base + _OVERHEAD:
            if time.monotonic() > until:
                return False
            await asyncio.sleep(0.005)
        return True

    def _used(self) -> int:
        """Bytes in use, without those of files that are only cached; what is exact costs more."""
        if "memory" not in self._at:
            return 0
        directory = self._at["memory"]
        used = int((directory / self._dialect.usage).read_text())
        if self._base and used <= self._base + _OVERHEAD:
            return used
        counts = _table(directory / "memory.stat")
        return max(0, used - sum(counts.get(name, 0) for name in self._dialect.cached))

    def begin(self, limits: Limits) -> None:
        """Bound what starts now."""
        bounds = (limits.memory, limits.processes)
        if bounds != self._bounds:
            self._bound(limits)
            self._bounds = bounds
        if self._peak is not None:
            os.pwrite(self._peak, b"0", 0)
        self._kills = self._count_kills()

    def peak(self) -> int | None:
        """The most bytes in use since `begin`, beyond the slot's own; None if not measured."""
        if self._peak is None:
            return None
        return max(0, int(os.pread(self._peak, 32, 0)) - self._base)

    def killed(self) -> bool:
        """Whether a process was killed for memory since `begin`."""
        return self._count_kills() > self._kills

    async def end(self) -> None:
        """Kill all in it and remove it, within a bound."""
        self._close()
        until = time.monotonic() + _EMPTY_WITHIN
        for directory in set(self._at.values()):
            while not _remove(directory) and time.monotonic() < until:
                await asyncio.sleep(0.005)

    def discard(self) -> None:
        """Remove it, as nothing was ever started in it."""
        self._close()
        for directory in set(self._at.values()):
            _remove(directory)

    def _close(self) -> None:
        if self._peak is not None:
            os.close(self._peak)
            self._peak = None

    def _bound(self, limits: Limits) -> None:
        if "memory" in self._at:
            memory = self._base + _OVERHEAD + limits.memory
            self._bound_memory(memory)
        if "pids" in self._at:
            _write(self._at["pids"] / "pids.max", limits.processes + _OWN_PROCESSES)

    def _bound_memory(self, memory: int) -> None:
        """Without swap, where it is accounted for; version 1 wants the outer bound not the less."""
        limit, swap = (self._at["memory"] / name for name in (
            self._dialect.memory, self._dialect.swap,
        ))  # fmt: skip
        if not swap.exists():
            _write(limit, memory)
        elif self._dialect is V2:
            _write(swap, 0)
            _write(limit, memory)
        else:
            _write(swap, -1)
            _write(limit, memory)
            _write(swap, memory)

    def _count_kills(self) -> int:
        if "memory" not in self._at:
            return 0
        return _table(self._at["memory"] / self._dialect.kills).get("oom_kill", 0)

    def _open(self, name: str, flags: int) -> int | None:
        """None where the kernel does not count peaks, or (before 6.12) cannot start them anew."""
        try:
            descriptor = os.open(self._at["memory"] / name, flags | os.O_CLOEXEC)
        except OSError:
            return None
        try:
            os.pwrite(descriptor, b"0", 0)
        except OSError:
            os.close(descriptor)
            return None
        return descriptor


def find_parents(proc: Path = Path("/proc")) -> Parents | None:
    """Where groups can be made; None if nowhere. May move this process into a group of its own."""
    own = dict(_own(proc))
    second = own.pop("", None)
    if second is not None:
        for parent in _second(second):
            if _delegate(parent):
                return Parents(V2, dict.fromkeys(_controllers(parent), parent))
    first = {
        control: directory
        for control in ("memory", "pids", "cpu", "cpuacct")
        if (directory := own.get(control)) is not None and os.access(directory, os.W_OK)
    }
    return Parents(V1, first) if "memory" in first or "pids" in first else None


def reap(parents: Parents) -> None:
    """Remove groups of services that no longer run, and what may still be in them."""
    until = time.monotonic() + _EMPTY_WITHIN
    for parent in set(parents.directories.values()):
        for directory in parent.glob(f"{_ours()}*-*-*"):
            pid, start, _ = directory.name.removeprefix(_ours()).split("-")
            if born(int(pid)) != int(start):
                while not _remove(directory) and time.monotonic() < until:
                    time.sleep(0.005)


def _ours() -> str:
    """How groups begin whose services have their numbers from the same process namespace as we.

    In another namespace, their numbers would say nothing of whether they run.
    """
    return f"{_PREFIX}{os.stat('/proc/self/ns/pid').st_ino}-"


def _own(proc: Path) -> Iterator[tuple[str, Path]]:
    """This process's directory in each hierarchy, by controller ("" for version 2)."""
    paths = {}
    for line in (proc / "self/cgroup").read_text().splitlines():
        _, controllers, path = line.split(":", 2)
        for controller in controllers.split(","):
            paths[controller] = path
    for line in (proc / "self/mountinfo").read_text().splitlines():
        fields, _, rest = line.partition(" - ")
        root, point = fields.split()[3:5]
        kind, _, options = rest.split(maxsplit=2)
        names = [""] if kind == "cgroup2" else options.split(",") if kind == "cgroup" else []
        for name in names:
            if name in paths and Path(paths[name]).is_relative_to(root):
                yield name, Path(point) / Path(paths[name]).relative_to(root)


def _second(own: Path) -> Iterator[Path]:
    """Version 2: our own group, if it was given to us; for root, the top."""
    yield own.parent if own.name == _LEAF else own
    if os.geteuid() == 0:
        top = own
        while (top.parent / "cgroup.controllers").exists():
            top = top.parent
        yield top


def _delegate(parent: Path) -> bool:
    """Have `parent`'s children bounded; its processes must then be in children themselves."""
    wanted = {"memory", "pids"}
    if not wanted <= set(_words(parent / "cgroup.controllers")) or not os.access(parent, os.W_OK):
        return False
    if _enable(parent):
        return True
    try:
        (parent / _LEAF).mkdir(exist_ok=True)
        _write(parent / _LEAF / "cgroup.procs", os.getpid())
    except OSError:
        return False
    return _enable(parent)


def _enable(parent: Path) -> bool:
    available = _words(parent / "cgroup.controllers")
    wanted = [f"+{control}" for control in ("memory", "pids", "cpu") if control in available]
    try:
        _write(parent / "cgroup.subtree_control", " ".join(wanted))
    except OSError:
        return False
    return True


def _controllers(parent: Path) -> Iterator[str]:
    """What is bounded in version 2; processor time is always counted."""
    yield from ("memory", "pids", "cpuacct")
    if "cpu" in _words(parent / "cgroup.controllers"):
        yield "cpu"


def _remove(directory: Path) -> bool:
    """Remove a group; if there are processes in it, kill them, for another try: False."""
    try:
        directory.rmdir()
    except FileNotFoundError:
        return True
    except OSError:
        with suppress(OSError):  # Gone meanwhile.
            for pid in map(int, _words(directory / "cgroup.procs")):
                if pid:  # 0 is a process of another namespace; to kill 0 is to kill ourselves.
                    _kill(pid)
        return False
    return True


def _kill(pid: int) -> None:
    try:
        os.kill(pid, signal.SIGKILL)
    except ProcessLookupError:
        return


def born(pid: int) -> int | None:
    """When a process started, in ticks since boot: with its number, this names it for ever."""
    try:
        stat = Path(f"/proc/{pid}/stat").read_text()
    except OSError:
        return None
    return int(stat.rpartition(")")[2].split()[19])


def _words(path: Path) -> list[str]:
    return path.read_text().split()


def _table(path: Path) -> dict[str, int]:
    lines = (line.split() for line in path.read_text().splitlines())
    return {words[0]: int(words[1]) for words in lines if len(words) == 2}


def _write(path: Path, value: int | str) -> None:
    descriptor = os.open(path, os.O_WRONLY)
    try:
        os.write(descriptor, f"{value}\n".encode())
    finally:
        os.close(descriptor)
