"""Where workers come from: a zygote (see zygote.py), started again when it dies.

All processes the service starts are started and killed here.
"""

import asyncio
import json
import os
import socket
import subprocess
import sys
from collections.abc import Mapping
from typing import Any

from rewards.verifiers import Canary
from rewards.worker import Lost, Worker
from rewards.zygote import PACKET

_START_WITHIN = 60.0
_ORDER_WITHIN = 20.0
_TRIES = 3


class StartFault(Exception):
    """No zygote could be started; the message says why."""


class Zygote:
    """A zygote process. Start it from the main thread: the kernel ties its life to that thread."""

    def __init__(self, verifiers: Mapping[str, str]) -> None:
        self._control, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self._lock = asyncio.Lock()
        with theirs:
            self._process = subprocess.Popen(
                [
                    sys.executable, "-m", "rewards.zygote", str(theirs.fileno()),
                    str(os.getpid()), json.dumps(dict(verifiers)),
                ],
                stdin=subprocess.DEVNULL, pass_fds=[theirs.fileno()],
            )  # fmt: skip
        self._control.setblocking(False)

    async def ready(self) -> dict[str, Canary]:
        """Wait until its verifiers are warm; returns a canary for each. Or StartFault."""
        try:
            message = await self._receive(_START_WITHIN)
        except Lost as lost:
            raise StartFault(lost.detail) from None
        if "fault" in message:
            raise StartFault(message["fault"])
        return {name: Canary.model_validate(one) for name, one in message["canaries"].items()}

    async def fork(self) -> Worker:
        """A fresh worker; Lost if the zygote has gone."""
        ours, theirs = socket.socketpair()
        with theirs:
            try:
                answer = await self._order({"fork": None}, [theirs.fileno()])
            except Lost:
                ours.close()
                raise
        reader, writer = await asyncio.open_connection(sock=ours)
        return Worker(answer["pid"], reader, writer)

    async def kill(self, worker: Worker) -> None:
        """Kill a worker of this zygote and wait for its end; Lost if the zygote has gone."""
        await self._order({"kill": worker.pid}, [])

    def end(self) -> None:
        """Kill it, and with it all its workers."""
        self._process.kill()
        self._process.wait(_ORDER_WITHIN)
        self._control.close()

    async def _order(self, order: dict[str, Any], descriptors: list[int]) -> dict[str, Any]:
        async with self._lock:
            try:
                socket.send_fds(self._control, [json.dumps(order).encode()], descriptors)
            except OSError as fault:
                raise Lost("crash", f"the workers' parent has gone: {fault}") from None
            return await self._receive(_ORDER_WITHIN)

    async def _receive(self, within: float) -> dict[str, Any]:
        try:
            async with asyncio.timeout(within):
                message = await asyncio.get_running_loop().sock_recv(self._control, PACKET)
        except TimeoutError:
            raise Lost("deadline", f"the workers' parent was silent for {within:g} s") from None
        except OSError as fault:
            raise Lost("crash", f"the workers' parent has gone: {fault}") from None
        if not message:
            raise Lost("crash", "the workers' parent has gone")
        content: dict[str, Any] = json.loads(message)
        return content


class Nursery:
    """Gives workers, from one zygote at a time."""

    def __init__(self, verifiers: Mapping[str, str]) -> None:
        self.verifiers = verifiers
        self._canaries: dict[str, Canary] = {}
        self._warm = False
        self._homes: dict[Worker, Zygote] = {}
        self._lock = asyncio.Lock()
        self._zygote: Zygote | None = Zygote(verifiers)

    @property
    def workers(self) -> int:
        """How many workers there are."""
        return len(self._homes)

    def canary(self, verifier: str) -> Canary:
        """An item of `verifier` with a known score; there is one once a worker was given."""
        return self._canaries[verifier]

    async def fork(self) -> Worker:
        """A fresh, warm worker. StartFault if no zygote can be started or kept."""
        for _ in range(_TRIES):
            zygote = await self._warmed()
            try:
                worker = await zygote.fork()
            except Lost:
                await self._forget(zygote)
                continue
            self._homes[worker] = zygote
            return worker
        raise StartFault(f"the workers' parent died {_TRIES} times in a row")

    async def kill(self, worker: Worker) -> None:
        """Kill `worker`; returns once it has ended."""
        zygote = self._homes.pop(worker)
        worker.writer.close()
        try:
            await zygote.kill(worker)
        except Lost:
            await self._forget(zygote)

    def end(self) -> None:
        """Kill all there is."""
        for worker in self._homes:
            worker.writer.close()
        self._homes.clear()
        if self._zygote is not None:
            self._zygote.end()
            self._zygote = None

    async def _warmed(self) -> Zygote:
        async with self._lock:
            if self._zygote is None:
                self._zygote = Zygote(self.verifiers)
            if not self._warm:
                self._canaries = await self._zygote.ready()
                self._warm = True
            return self._zygote

    async def _forget(self, zygote: Zygote) -> None:
        """End a zygote that is of no use; the kernel ends its workers with it."""
        async with self._lock:
            if self._zygote is zygote:
                zygote.end()
                self._zygote, self._warm = None, False
