"""One warm interpreter in its namespaces, seen from the service; it runs one program at a time.

What happens in it is told by its supervisor (see inside/), over sockets that programs do not hold.
A zygote that does not do as expected is broken, and of no further use.
"""

import asyncio
import json
import os
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Coroutine, Mapping
from contextlib import ExitStack, suppress
from fcntl import F_ADD_SEALS, F_SEAL_GROW, F_SEAL_SEAL, F_SEAL_SHRINK, F_SEAL_WRITE, fcntl
from pathlib import Path
from typing import Any, Protocol

from sandbox.tiers import Ending, Program, Run, SlotLost, Talk
from sandbox.tiers.cgroup import Group
from sandbox.tiers.inside.frames import frame
from sandbox.tiers.reports import exchange

_READY_WITHIN = 60.0
GRACE = 10.0
_SETTLED_WITHIN = 5.0
_TAKEN_IN_WITHIN = 1.0
_PACKET = 4096
_LAUNCHER = Path(__file__).with_name("launcher.py")
_SEALS = F_SEAL_WRITE | F_SEAL_GROW | F_SEAL_SHRINK | F_SEAL_SEAL

Launch = Callable[[int, int], dict[str, Any]]
"""From the descriptor of the control socket, and our process: what the launcher is to do."""


class Socket:
    """Our end of a program's channel."""

    def __init__(self, ours: socket.socket) -> None:
        self.reading = False
        self._socket = ours
        self._socket.setblocking(False)

    async def read(self, size: int) -> bytes:
        """As `sandbox.tiers.Channel`."""
        self.reading = True
        try:
            return await asyncio.get_running_loop().sock_recv(self._socket, size)
        except OSError:
            return b""
        finally:
            self.reading = False

    async def write(self, content: bytes) -> None:
        """As `sandbox.tiers.Channel`."""
        await asyncio.get_running_loop().sock_sendall(self._socket, content)


class Zygote:
    """Start it from the main thread: the kernel ties its life to that thread."""

    def __init__(self, launch: Launch, group: Group | None, environment: Mapping[str, str]) -> None:
        self.broken = False
        self.runs = 0
        self._group = group
        self._environment = environment
        with ExitStack() as held:
            self._counter = group.counter() if group is not None else None
            if self._counter is not None:
                held.callback(os.close, self._counter[0])
            self._watch = group.watch() if group is not None else None
            if self._watch is not None:
                held.callback(os.close, self._watch)
            self._control, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
            self._control.setblocking(False)
            held.enter_context(self._control)
            with theirs:
                self._errors, errors = os.pipe()
                held.callback(os.close, self._errors)
                os.set_blocking(self._errors, False)
                self._process = _launched(launch, theirs, errors)
            self._held = held.pop_all()

    async def ready(self) -> None:
        """Wait until it is warm; SlotLost, with what it said, if it does not start."""
        try:
            async with asyncio.timeout(_READY_WITHIN):
                message = await self._heard()
        except TimeoutError:
            raise SlotLost("start", f"not ready after {_READY_WITHIN:g} s") from None
        except SlotLost:
            said = self._said()
            raise SlotLost("start", f"it ended at its start: {said or 'without a word'}") from None
        assert "ready" in message, message
        if self._group is not None:
            self._group.settle()

    async def run(self, program: Program, talk: Talk | None, *, script: bool) -> Run:
        """Run a program, as the warm interpreter's own script or else by executing it."""
        self.runs += 1
        await self._begin(program)
        ours, theirs = socket.socketpair()
        ours.setblocking(False)
        channel = socket.socketpair() if program.channel else None
        with ours:
            try:
                self._order(program, theirs, channel and channel[1])
                content = frame(self._header(program, script), list(program.files.values()))
                run = self._followed(ours, program, content, talk, channel and channel[0])
                report, parts, fault = await self._within(program.limits.wall + GRACE, run)
                await self._within(_SETTLED_WITHIN, self._heard())
            except SlotLost as lost:
                self.broken = True
                if self._killed_for_memory():
                    return _out_of_memory(self._group)
                raise lost from None
            except asyncio.CancelledError:
                await self._abandon(ours)
                raise
            finally:
                theirs.close()
                for end in channel or ():
                    end.close()
        if fault is not None:
            raise fault
        return self._run(report, parts)

    async def end(self) -> None:
        """Kill it and all in it; returns once that has gone, or after a bound."""
        self.broken = True
        self._process.kill()
        until = time.monotonic() + _SETTLED_WITHIN
        while self._process.poll() is None and time.monotonic() < until:
            await asyncio.sleep(0.002)
        with suppress(OSError, TimeoutError):  # Gone already; or stuck in the kernel.
            async with asyncio.timeout(_SETTLED_WITHIN):
                while await asyncio.get_running_loop().sock_recv(self._control, _PACKET):
                    continue
        try:
            if self._group is not None:
                await self._group.end()
        finally:
            self._held.close()

    async def _begin(self, program: Program) -> None:
        """Set the bounds of a run; SlotLost if the slot's group has gone, or is not free."""
        if self._group is None:
            return
        try:
            if not await self._group.freed():
                raise OSError("it holds memory of an ended program")
            self._group.begin(program.limits)
        except OSError as fault:
            self.broken = True
            raise SlotLost("group", f"the slot's control group: {fault}") from None

    def _order(self, program: Program, *ends: socket.socket | None) -> None:
        """Send the descriptors of a run; SlotLost if nobody is there."""
        stdin = _sealed(program.stdin)
        meter = stdin if self._counter is None else self._counter[0]
        watch = stdin if self._watch is None else self._watch
        run, channel = ends
        assert run is not None
        descriptors = [run.fileno(), stdin, meter, watch]
        if channel is not None:
            descriptors.append(channel.fileno())
        try:
            socket.send_fds(self._control, [b"run"], descriptors)
        except OSError as fault:
            raise SlotLost("gone", f"the supervisor has gone: {fault}") from None
        finally:
            os.close(stdin)
            for end in filter(None, ends):
                end.close()

    def _header(self, program: Program, script: bool) -> dict[str, Any]:
        controls: frozenset[str] = frozenset() if self._group is None else self._group.controls
        return ordered(program, script, self._environment) | {
            "usage_scale": 0 if self._counter is None else self._counter[1],
            "bounded": "memory" in controls,
            "threads": None if "pids" in controls else program.limits.processes + 2,
        }

    async def _followed(
        self,
        ours: socket.socket,
        program: Program,
        content: bytes,
        talk: Talk | None,
        channel: socket.socket | None,
    ) -> tuple[dict[str, Any], list[bytes], BaseException | None]:
        """Send the order and await the report, talking meanwhile; also what `talk` raised."""
        following = exchange(ours, content)
        if talk is None or channel is None:
            return *await following, None
        report = asyncio.ensure_future(following)
        end = Socket(channel)
        talking = asyncio.ensure_future(talk(end))
        try:
            await asyncio.wait((report, talking), return_when=asyncio.FIRST_COMPLETED)
            if talking.done():
                ours.shutdown(socket.SHUT_WR)
            header, parts = await report
            return header, parts, await over(talking, end)
        finally:
            report.cancel()
            talking.cancel()

    async def _within(self, seconds: float, work: Coroutine[Any, Any, Any]) -> Any:
        """SlotLost if it takes longer, or the slot goes away under it."""
        try:
            async with asyncio.timeout(seconds):
                return await work
        except TimeoutError:
            raise SlotLost("silent", f"no answer within {seconds:g} s") from None
        except (EOFError, OSError, ValueError) as fault:
            raise SlotLost("gone", f"the supervisor has gone: {fault}") from None

    async def _abandon(self, ours: socket.socket) -> None:
        """Have the program killed, as nobody waits for it any longer."""
        self.broken = True  # Unless it settles.
        ours.close()
        with suppress(SlotLost):
            await self._within(_SETTLED_WITHIN, self._heard())
            self.broken = False

    async def _heard(self) -> dict[str, Any]:
        """What the supervisor says next; SlotLost if it has gone."""
        try:
            message = await asyncio.get_running_loop().sock_recv(self._control, _PACKET)
        except OSError:
            message = b""
        if not message:
            raise SlotLost("gone", "the supervisor has gone")
        content: dict[str, Any] = json.loads(message)
        return content

    def _said(self) -> str:
        """The last line that its launcher, bubblewrap or interpreter wrote."""
        try:
            return os.read(self._errors, 2**16).decode(errors="replace").strip().rpartition("\n")[2]
        except BlockingIOError:
            return ""

    def _run(self, report: dict[str, Any], parts: list[bytes]) -> Run:
        if "fault" in report:
            self.broken = True
            if self._killed_for_memory():
                return _out_of_memory(self._group)
            raise SlotLost("fault", report["fault"])
        ending: Ending = "memory" if self._killed_for_memory() else report["ending"]
        return Run(
            ending, report["exit_code"], report["signal"], parts[0], parts[1],
            report["wall"], report["cpu"], self._group.peak() if self._group else None,
            dict(zip(report["kept"], parts[2:], strict=True)),
        )  # fmt: skip

    def _killed_for_memory(self) -> bool:
        return self._group is not None and self._group.killed()


def _launched(launch: Launch, control: socket.socket, errors: int) -> subprocess.Popen[bytes]:
    """The launcher, started; takes over `errors`."""
    try:
        order = json.dumps(launch(control.fileno(), os.getpid()))
        stdin = _sealed(b"")
        try:
            return subprocess.Popen(
                [sys.executable, "-I", "-S", _LAUNCHER, order], env={}, cwd="/",
                stdin=stdin, stdout=errors, stderr=errors,
                pass_fds=[control.fileno()], start_new_session=True,
            )  # fmt: skip
        finally:
            os.close(stdin)
    finally:
        os.close(errors)


def ordered(program: Program, script: bool, environment: Mapping[str, str]) -> dict[str, Any]:
    """What of an order is the same in every tier (see inside/frames.py)."""
    return {
        "argv": list(program.argv),
        "script": script,
        "env": dict(environment),
        "files": list(program.files),
        "keep": list(program.keep),
        "channel": program.channel,
        "limits": vars(program.limits),
    }


def _out_of_memory(group: Group | None) -> Run:
    """What is known of a program that did not come to its start, for the memory it took."""
    assert group is not None
    return Run("memory", None, None, b"", b"", 0.0, 0.0, group.peak())


def _sealed(content: bytes) -> int:
    """A descriptor to read `content` from, that nobody can write to."""
    descriptor = os.memfd_create("stdin", os.MFD_CLOEXEC | os.MFD_ALLOW_SEALING)
    left = memoryview(content)
    while left:
        left = left[os.write(descriptor, left) :]
    os.lseek(descriptor, 0, os.SEEK_SET)
    fcntl(descriptor, F_ADD_SEALS, _SEALS)
    return descriptor


class Reading(Protocol):
    """Our end of a channel, and whether the talk awaits what comes from there."""

    reading: bool


async def over(talking: asyncio.Future[None], end: Reading) -> BaseException | None:
    """End a talk, as its program has ended; what it raised of its own accord.

    Before, it takes in what the program sent last, which may come later than news of its end.
    """
    until = time.monotonic() + _TAKEN_IN_WITHIN
    while end.reading and not talking.done() and time.monotonic() < until:
        await asyncio.wait((talking,), timeout=0.001)
    talking.cancel()
    await asyncio.wait((talking,))
    return None if talking.cancelled() else talking.exception()
