"""One warm container, seen from the service; it runs one program at a time.

All that is said goes through its attached streams, as frames (see inside/container.py).
"""

import asyncio
import contextlib
import io
import json
import os
import socket
import struct
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from docker.errors import DockerException

from sandbox.tiers import Limits, Program, Run, SlotLost, Talk
from sandbox.tiers.inside import frames
from sandbox.tiers.slot import SCRIPT
from sandbox.tiers.zygote import GRACE, ordered, over

_READY_WITHIN = 60.0
_SETTLED_WITHIN = 5.0
_CPUS = 10**9
_OVERHEAD = 8 * 2**20
_AT_FIRST = 2**30
_STDERR = 2
_HELD = 16 * 2**20
"""Most bytes from a program's channel that wait to be read."""
_BOOT = """
import json, os, struct, sys
def exactly(size):
    parts = []
    while size:
        parts.append(os.read(0, size))
        if not parts[-1]: sys.exit("the service has gone")
        size -= len(parts[-1])
    return b"".join(parts)
head = json.loads(exactly(struct.unpack(">I", exactly(4))[0]))
for path, size in zip(head["files"], head["sizes"]):
    os.makedirs(os.path.dirname(path), exist_ok=True)
    with open(path, "wb") as file:
        file.write(exactly(size))
os.makedirs("/sandbox/bin")
for name in "python", "python3":
    os.symlink(os.path.realpath(sys.executable), "/sandbox/bin/" + name)
os.dup2(0, 30), os.dup2(1, 31), os.dup2(2, 1), os.dup2(os.memfd_create("stdin"), 0)
os.chdir("/box")
os.execve("/sandbox/bin/python", ["/sandbox/bin/python", head["script"]], head["env"])
"""


@dataclass(frozen=True)
class Launch:
    """How a container is made, what is put into it, and the environment of its programs.

    `own_environment` is what the supervisor has besides.
    """

    options: Mapping[str, Any]
    files: Mapping[str, bytes]
    environment: Mapping[str, str]
    own_environment: Mapping[str, str]


class Streams:
    """A container's attached streams: frames both ways, and what it wrote as errors."""

    def __init__(self, attached: Any) -> None:
        self._attached = attached  # Kept, as it closes the connection when it goes.
        self._socket = socket.socket(fileno=os.dup(attached.fileno()))
        self._socket.setblocking(False)
        self._raw, self._out, self.errors = bytearray(), bytearray(), bytearray()
        self._header: dict[str, Any] | None = None

    async def send(self, header: Mapping[str, Any], *parts: bytes) -> None:
        """Send a frame; OSError if the container has gone."""
        content = frames.frame(dict(header), parts)
        await asyncio.get_running_loop().sock_sendall(self._socket, content)

    async def receive(self) -> tuple[dict[str, Any], list[bytes]]:
        """The next frame, taken as a whole; ConnectionError if the container has gone."""
        while (frame := self._frame()) is None:
            await self._more()
        return frame

    def _frame(self) -> tuple[dict[str, Any], list[bytes]] | None:
        """The next frame, once all of it is there; its header is parsed once."""
        if self._header is None:
            start = frames.LENGTH.size
            if len(self._out) < start:
                return None
            end = start + frames.LENGTH.unpack_from(self._out)[0]
            if len(self._out) < end:
                return None
            self._header = json.loads(self._out[start:end])
            del self._out[:end]
        header, sizes = self._header, self._header["sizes"]
        if len(self._out) < sum(sizes):
            return None
        self._header = None
        return header, [self._taken(size) for size in sizes]

    def _taken(self, size: int) -> bytes:
        part = bytes(self._out[:size])
        del self._out[:size]
        return part

    def close(self) -> None:
        """Let go of the container."""
        self._socket.close()
        self._attached.close()

    async def _more(self) -> None:
        """Take in what comes next; the daemon puts 8 bytes before each piece."""
        part = await asyncio.get_running_loop().sock_recv(self._socket, 2**18)
        if not part:
            raise ConnectionError("the container has gone")
        self._raw += part
        while len(self._raw) >= 8:
            kind, size = struct.unpack_from(">BxxxI", self._raw)
            if len(self._raw) < 8 + size:
                return
            target = self.errors if kind == _STDERR else self._out
            target += self._raw[8 : 8 + size]
            del self._raw[: 8 + size]


class Conversation:
    """Our end of a program's channel."""

    def __init__(self, streams: Streams) -> None:
        self.reading = False
        self._streams = streams
        self._reader = asyncio.StreamReader()
        self._held = 0
        self._ended = False

    def feed(self, part: bytes) -> None:
        """What the program sent; nothing at its end, and too much unread is taken as that."""
        if self._ended:
            return
        self._held += len(part)
        if part and self._held <= _HELD:
            self._reader.feed_data(part)
        else:
            self._ended = True
            self._reader.feed_eof()

    async def read(self, size: int) -> bytes:
        """As `sandbox.tiers.Channel`."""
        self.reading = True
        try:
            part = await self._reader.read(size)
        finally:
            self.reading = False
        self._held -= len(part)
        return part

    async def write(self, content: bytes) -> None:
        """As `sandbox.tiers.Channel`."""
        if self._ended:
            raise BrokenPipeError("the program has closed its end")
        await self._streams.send({"channel": True}, content)


class Container:
    """As a Zygote, in a container."""

    def __init__(self, client: Any, launch: Launch) -> None:
        self.broken = False
        self.runs = 0
        self._client = client
        self._launch = launch
        self._container: Any = None
        self._streams: Streams | None = None
        self._base = 0
        self._memory = 0

    async def ready(self) -> None:
        """Make it and wait until it is warm; SlotLost, with what it said, if it does not start."""
        try:
            async with asyncio.timeout(_READY_WITHIN):
                streams = self._streams = await asyncio.to_thread(self._make)
                own = {**self._launch.environment, **self._launch.own_environment}
                order = {"files": list(self._launch.files), "script": SCRIPT, "env": own}
                await streams.send(order, *self._launch.files.values())
                header, _ = await streams.receive()
        except (DockerException, OSError, TimeoutError) as fault:
            said = self._streams.errors.decode(errors="replace") if self._streams else ""
            last = said.strip().rpartition("\n")[2]
            raise SlotLost("start", f"the container did not start: {last or fault}") from None
        self._base = header["memory"]

    async def run(self, program: Program, talk: Talk | None, *, script: bool) -> Run:
        """Run a program, as the warm interpreter's own script or else by executing it."""
        self.runs += 1
        assert self._streams is not None
        conversation = Conversation(self._streams)
        order = ordered(program, script, self._launch.environment)
        order |= {"threads": program.limits.processes}
        try:
            async with asyncio.timeout(program.limits.wall + GRACE):
                await self._bound(program.limits)
                await self._streams.send(order, *program.files.values(), program.stdin)
                work = self._followed(conversation, talk if program.channel else None)
                clean, report, fault = await work
        except asyncio.CancelledError:
            await self._abandon(conversation)
            raise
        except (DockerException, OSError, TimeoutError) as fault:
            self.broken = True
            raise SlotLost("gone", f"the container: {fault or 'no answer'}") from None
        run = self._run(clean, report)
        if fault is not None:
            raise fault
        return run

    async def end(self) -> None:
        """Remove it, and all in it."""
        self.broken = True
        if self._container is not None:
            with contextlib.suppress(DockerException):  # Gone already.
                await asyncio.to_thread(self._container.remove, force=True)
        if self._streams is not None:
            self._streams.close()
            self._streams = None

    def _make(self) -> Streams:
        command = ["python3", "-I", "-c", _BOOT]
        self._container = self._client.containers.create(
            command=command, mem_limit=_AT_FIRST, memswap_limit=_AT_FIRST, nano_cpus=_CPUS,
            **self._launch.options,
        )  # fmt: skip
        if self.broken:  # Given up meanwhile, when there was nothing to remove yet.
            self._container.remove(force=True)
            raise ConnectionError("nobody waits for it any longer")
        streams = {"stdin": 1, "stdout": 1, "stderr": 1, "stream": 1}
        attached = self._client.api.attach_socket(self._container.id, params=streams)
        self._container.start()
        return Streams(attached)

    async def _bound(self, limits: Limits) -> None:
        """Bound the container's memory; a call to the daemon, so only where it changes."""
        memory = self._base + _OVERHEAD + limits.memory
        if memory != self._memory:
            await asyncio.to_thread(self._container.update, mem_limit=memory, memswap_limit=memory)
            self._memory = memory

    async def _followed(
        self, conversation: Conversation, talk: Talk | None
    ) -> tuple[bool, bytes, BaseException | None]:
        """Whether nothing is left, and the report, talking meanwhile; also what `talk` raised."""
        if talk is None:
            return *await self._report(conversation), None
        report = asyncio.ensure_future(self._report(conversation))
        talking = asyncio.ensure_future(talk(conversation))
        try:
            await asyncio.wait((report, talking), return_when=asyncio.FIRST_COMPLETED)
            if not report.done():
                assert self._streams is not None
                await self._streams.send({"stop": True})
            clean, content = await report
            return clean, content, await over(talking, conversation)
        finally:
            report.cancel()
            talking.cancel()

    async def _report(self, conversation: Conversation) -> tuple[bool, bytes]:
        assert self._streams is not None
        while True:
            header, parts = await self._streams.receive()
            if "clean" in header:
                conversation.feed(b"")
                return header["clean"], parts[0]
            conversation.feed(parts[0])

    async def _abandon(self, conversation: Conversation) -> None:
        """Have the program killed, as nobody waits for it any longer."""
        self.broken = True  # Unless it settles.
        assert self._streams is not None
        with contextlib.suppress(OSError, TimeoutError):
            async with asyncio.timeout(_SETTLED_WITHIN):
                await self._streams.send({"stop": True})
                clean, _ = await self._report(conversation)
                self.broken = not clean

    def _run(self, clean: bool, content: bytes) -> Run:
        report, parts = frames.receive(io.BytesIO(content).read)
        self.broken = not clean or "fault" in report
        if "fault" in report:
            raise SlotLost("fault", report["fault"])
        return Run(
            report["ending"], report["exit_code"], report["signal"], parts[0], parts[1],
            report["wall"], report["cpu"], None, dict(zip(report["kept"], parts[2:], strict=True)),
        )  # fmt: skip
