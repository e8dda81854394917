"""No isolation: a plain process in a session of its own, for trusted programs and for our tests.

It can read, write and connect like the service itself, so it must be allowed by name. A process
that leaves the program's group outlives it.
"""

import asyncio
import os
import signal
import socket
import sys
import tempfile
import time
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

from sandbox.tiers import Ending, Program, Run, Slot, SlotLost, Talk

_WATCH = 0.05
_TICK = os.sysconf("SC_CLK_TCK")
_PAGE = os.sysconf("SC_PAGE_SIZE")
_CHUNK = 2**16
_AWAY = 200

_START = 'cd -- "$1" && ulimit -c 0 && ulimit -f "$2" && shift 2 && exec "$@"'


class Process:
    """The tier; ValueError unless it is allowed by name."""

    name = "process"

    def __init__(self, *, allow_unsafe: bool = False) -> None:
        if not allow_unsafe:
            raise ValueError(
                "the tier `process` does not isolate: choose `namespaces` or `docker`, or pass "
                "--allow-unsafe if every program is trusted"
            )

    async def slot(self) -> Slot:
        """A slot that has nothing to break."""
        return _Slot()

    def enforces(self) -> Mapping[str, str]:
        """What little there is."""
        group = "the service kills the process group"
        return {
            "wall": group, "cpu": f"{group}, which it looks at each {_WATCH} s",
            "memory": f"{group}, which it looks at each {_WATCH} s", "processes": "nothing",
            "output": group, "files": "RLIMIT_FSIZE of each file", "network": "nothing",
            "filesystem": "nothing", "system calls": "nothing", "users": "nothing",
        }  # fmt: skip


class _Slot:
    async def run(self, program: Program, talk: Talk | None = None) -> Run:
        """As `sandbox.tiers.Slot`."""
        with tempfile.TemporaryDirectory(prefix="sandbox-", ignore_cleanup_errors=True) as name:
            box = Path(name)
            for file, content in program.files.items():
                (box / file).write_bytes(content)
                (box / file).chmod(0o755)
            return await _Running(program, box).until_ended(talk)

    async def close(self) -> None:
        """There is nothing to end."""


class _Output:
    """What a program writes into a pipe, up to a limit."""

    def __init__(self, limit: int, stir: asyncio.Event) -> None:
        self.over = False
        self.content = bytearray()
        self._limit = limit
        self._stir = stir
        self._ours, self.theirs = os.pipe()
        os.set_blocking(self._ours, False)
        asyncio.get_running_loop().add_reader(self._ours, self.take)

    def take(self) -> bool:
        """Take what is there; false once there is no more to come."""
        try:
            piece = os.read(self._ours, _CHUNK)
        except BlockingIOError:
            return False
        room = self._limit - len(self.content)
        self.content += piece[:room]
        if len(piece) > room:
            self.over = True
            self._stir.set()
        if not piece or self.over:
            asyncio.get_running_loop().remove_reader(self._ours)
            return False
        return True

    def close(self) -> None:
        """Take in what the pipe still holds; another process may keep it open for good."""
        while not self.over and self.take():
            pass
        asyncio.get_running_loop().remove_reader(self._ours)
        os.close(self._ours)


class _Input:
    """Feeds a program through a pipe, as fast as it reads."""

    def __init__(self, content: bytes) -> None:
        self._left = memoryview(content)
        self.theirs, self._ours = os.pipe()
        os.set_blocking(self._ours, False)
        asyncio.get_running_loop().add_writer(self._ours, self._give)

    def _give(self) -> None:
        try:
            self._left = self._left[os.write(self._ours, self._left[:_CHUNK]) :]
        except BrokenPipeError:
            self._left = self._left[:0]
        except BlockingIOError:
            return
        if not self._left:
            self.close()

    def close(self) -> None:
        """Nothing more comes."""
        if self._ours >= 0:
            asyncio.get_running_loop().remove_writer(self._ours)
            os.close(self._ours)
        self._ours = -1


class _Socket:
    """Both ends of a program's channel."""

    def __init__(self) -> None:
        self._ours, self.theirs = socket.socketpair()
        self._ours.setblocking(False)

    async def read(self, size: int) -> bytes:
        """As `sandbox.tiers.Channel`."""
        try:
            return await asyncio.get_running_loop().sock_recv(self._ours, size)
        except OSError:
            return b""

    async def write(self, content: bytes) -> None:
        """As `sandbox.tiers.Channel`."""
        await asyncio.get_running_loop().sock_sendall(self._ours, content)

    def close(self) -> None:
        """Close our end."""
        self._ours.close()


class _Running:
    """One program from its start to its end."""

    def __init__(self, program: Program, box: Path) -> None:
        self._program = program
        self._box = box
        self._cpu, self._memory = 0.0, 0
        self._stir = asyncio.Event()
        self._in = _Input(program.stdin)
        self._out = _Output(program.limits.output, self._stir)
        self._err = _Output(program.limits.output, self._stir)
        self._channel = _Socket() if program.channel else None

    async def until_ended(self, talk: Talk | None) -> Run:
        """Start it, and wait until it has ended or one of its limits has ended it."""
        try:
            pid = self._start()
            started = time.monotonic()
            try:
                ending = await self._watched(pid, talk)
            finally:
                with suppress(ProcessLookupError):
                    os.killpg(pid, signal.SIGKILL)
                _, status, usage = os.wait4(pid, 0)
            wall = time.monotonic() - started
        finally:
            for part in (self._in, self._out, self._err, self._channel):
                if part is not None:
                    part.close()
        return self._run(ending, os.waitstatus_to_exitcode(status), usage, wall)

    def _run(self, ending: Ending, code: int, usage: Any, wall: float) -> Run:
        if ending == "exited" and (self._out.over or self._err.over):
            ending = "output"
        elif ending == "exited" and code < 0:
            ending = "signalled"
        return Run(
            ending, code if code >= 0 else None, -code if code < 0 else None,
            bytes(self._out.content), bytes(self._err.content), wall,
            max(self._cpu, usage.ru_utime + usage.ru_stime),
            max(self._memory, usage.ru_maxrss * 1024), self._kept(),
        )  # fmt: skip

    def _start(self) -> int:
        ends = [self._in.theirs, self._out.theirs, self._err.theirs]
        if self._channel is not None:
            ends.append(self._channel.theirs.fileno())
        shut = [(os.POSIX_SPAWN_CLOSE, end) for end in _inherited()]
        # Moved twice, as a number that one end gets may be that of another, not yet copied.
        away = [(os.POSIX_SPAWN_DUP2, end, _AWAY + at) for at, end in enumerate(ends)]
        back = [(os.POSIX_SPAWN_DUP2, _AWAY + at, at) for at in range(len(ends))]
        done = [(os.POSIX_SPAWN_CLOSE, _AWAY + at) for at in range(len(ends))]
        try:
            return os.posix_spawn(
                "/bin/sh", self._argv(), _environment(self._box),
                file_actions=[*shut, *away, *back, *done], setsid=True,
            )  # fmt: skip
        except OSError as fault:
            raise SlotLost("spawn", str(fault)) from None
        finally:
            for end in ends[:3]:
                os.close(end)
            if self._channel is not None:
                self._channel.theirs.close()

    def _argv(self) -> list[str]:
        blocks = str(self._program.limits.files // 512)
        argv = list(self._program.argv)
        if argv[0] == "python":
            argv[0] = sys.executable
        return ["sh", "-c", _START, "sh", str(self._box), blocks, *argv]

    async def _watched(self, pid: int, talk: Talk | None) -> Ending:
        loop = asyncio.get_running_loop()
        pidfd = os.pidfd_open(pid)
        ended = loop.create_future()
        loop.add_reader(pidfd, self._note_end, ended)
        talking = None
        if talk is not None and self._channel is not None:
            talking = asyncio.ensure_future(talk(self._channel))
            talking.add_done_callback(lambda _: self._stir.set())
        try:
            return await self._ending(pid, ended, talking)
        finally:
            loop.remove_reader(pidfd)
            os.close(pidfd)
            if talking is not None:
                await _over(talking)

    def _note_end(self, ended: asyncio.Future[None]) -> None:
        if not ended.done():
            ended.set_result(None)
        self._stir.set()

    async def _ending(
        self, pid: int, ended: asyncio.Future[None], talking: asyncio.Future[None] | None
    ) -> Ending:
        limits = self._program.limits
        deadline = time.monotonic() + limits.wall
        while not ended.done() and not (talking is not None and talking.done()):
            self._measure(pid)
            if self._out.over or self._err.over:
                return "output"
            if time.monotonic() >= deadline:
                return "wall"
            if self._cpu > limits.cpu:
                return "cpu"
            if self._memory > limits.memory:
                return "memory"
            with suppress(TimeoutError):
                async with asyncio.timeout(min(_WATCH, deadline - time.monotonic())):
                    await self._stir.wait()
            self._stir.clear()
        return "exited"

    def _measure(self, pid: int) -> None:
        """CPU time and memory of the program itself; those of its children are not counted."""
        try:
            fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
        except OSError:
            return
        self._cpu = max(self._cpu, (int(fields[11]) + int(fields[12])) / _TICK)
        self._memory = max(self._memory, int(fields[21]) * _PAGE)

    def _kept(self) -> dict[str, bytes]:
        found = {}
        for name in self._program.keep:
            path = self._box / name
            if path.is_file() and not path.is_symlink():
                found[name] = path.read_bytes()
        return found


def _inherited() -> list[int]:
    """Descriptors that whoever started the service left open for its children."""
    found = []
    for end in map(int, os.listdir("/proc/self/fd")):
        with suppress(OSError):  # The directory's own has gone by now.
            if end > 2 and os.get_inheritable(end):
                found.append(end)
    return found


async def _over(talking: asyncio.Future[None]) -> None:
    """End a talk; a fault in it is a bug of ours."""
    talking.cancel()
    with suppress(asyncio.CancelledError):
        await talking


def _environment(box: Path) -> dict[str, str]:
    return {
        "PATH": f"{Path(sys.executable).parent}:{os.defpath}", "HOME": str(box),
        "LANG": "C.UTF-8", "TZ": "UTC", "PYTHONHASHSEED": "0", "OPENBLAS_NUM_THREADS": "1",
    }  # fmt: skip
