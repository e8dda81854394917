"""Where workers come from: a zygote (see zygote.py), started again when it dies.

All processes the service starts are started and killed here.
"""

import asyncio
import json
import os
import socket
import subprocess
import sys
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from rewards.verifiers import Canary, Profile
from rewards.worker import Lost, Worker
from rewards.zygote import END, PACKET, PROFILES

_START_WITHIN = 60.0
_ORDER_WITHIN = 20.0
_TRIES = 3


class StartFault(Exception):
    """No zygote could be started; the message says why."""


class Unservable(StartFault):
    """A verifier cannot be loaded, or fails its canary; the message says which and why."""


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

    async def ready(self) -> Sequence[Profile]:
        """Wait until its verifiers are warm; returns what they say of themselves. Or StartFault."""
        text = b""
        try:
            async with asyncio.timeout(_START_WITHIN):
                while (packet := await self._receive()) != END:
                    text += packet
        except TimeoutError:
            raise StartFault(f"the workers' parent was silent for {_START_WITHIN:g} s") from None
        except Lost as lost:
            raise StartFault(lost.detail) from None
        content = json.loads(text)
        if "fault" in content:
            raise Unservable(content["fault"])
        return PROFILES.validate_python(content)

    async def fork(self, progress: Callable[[], None]) -> Worker:
        """A fresh worker; Lost if the zygote has gone."""
        ours, theirs = socket.socketpair()
        with theirs:
            try:
                answer = await self._order({"fork": None}, [theirs.fileno()])
            except Lost:
                ours.close()
                raise
        connect = asyncio.get_running_loop().create_unix_connection
        _, worker = await connect(lambda: Worker(progress), sock=ours)
        worker.pid = answer["pid"]
        return worker

    async def kill(self, worker: Worker) -> int:
        """Kill a worker of this zygote; returns the status it ended with, before the kill if it

        was dead already. Lost if the zygote has gone.
        """
        status: int = (await self._order({"kill": worker.pid}, []))["status"]
        return status

    def end(self) -> None:
        """Kill it, and with it all its workers."""
        self._process.kill()
        self._process.wait(_ORDER_WITHIN)
        self._control.close()

    async def _order(self, order: dict[str, Any], descriptors: list[int]) -> dict[str, Any]:
        async with self._lock:
            try:
                socket.send_fds(self._control, [json.dumps(order).encode()], descriptors)
                async with asyncio.timeout(_ORDER_WITHIN):
                    answer: dict[str, Any] = json.loads(await self._receive())
            except TimeoutError:
                silence = f"the workers' parent was silent for {_ORDER_WITHIN:g} s"
                raise Lost("deadline", silence) from None
            except OSError as fault:
                raise Lost("crash", f"the workers' parent has gone: {fault}") from None
            return answer

    async def _receive(self) -> bytes:
        try:
            message = await asyncio.get_running_loop().sock_recv(self._control, PACKET)
        except OSError as fault:
            raise Lost("crash", f"the workers' parent has gone: {fault}") from None
        if not message:
            raise Lost("crash", "the workers' parent has gone")
        return message


class Nursery:
    """Gives workers, from one zygote at a time."""

    def __init__(self, verifiers: Mapping[str, str]) -> None:
        self.verifiers = verifiers
        self._profiles: Sequence[Profile] = []
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
        return next(one for one in self._profiles if one.name == verifier).canaries[0]

    async def profiles(self) -> Sequence[Profile]:
        """What the verifiers say about themselves, once they are warm; StartFault as `fork`."""
        await self._warmed()
        return self._profiles

    async def fork(self, progress: Callable[[], None]) -> Worker:
        """A fresh, warm worker. StartFault if no zygote can be started or kept."""
        for _ in range(_TRIES):
            zygote = await self._warmed()
            try:
                worker = await zygote.fork(progress)
            except Lost:
                await self._forget(zygote)
                continue
            self._homes[worker] = zygote
            return worker
        raise StartFault(f"the workers' parent died {_TRIES} times in a row")

    async def kill(self, worker: Worker) -> int | None:
        """Kill `worker`; returns its wait status, or None if its zygote has gone with it."""
        zygote = self._homes.pop(worker)
        worker.close()
        try:
            return await zygote.kill(worker)
        except Lost:
            await self._forget(zygote)
            return None

    def end(self) -> None:
        """Kill all there is."""
        for worker in self._homes:
            worker.close()
        self._homes.clear()
        if self._zygote is not None:
            self._zygote.end()
            self._zygote = None

    async def _warmed(self) -> Zygote:
        async with self._lock:
            if self._zygote is None:
                self._zygote = Zygote(self.verifiers)
            if not self._warm:
                self._profiles = await self._zygote.ready()
                self._warm = True
            return self._zygote

    async def _forget(self, zygote: Zygote) -> None:
        """End a zygote that is of no use; the kernel ends its workers with it."""
        async with self._lock:
            if self._zygote is zygote:
                zygote.end()
                self._zygote, self._warm = None, False
