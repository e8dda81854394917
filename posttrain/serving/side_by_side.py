"""Several checkpoints served side by side, each behind an endpoint of its own.

Always holds: none is told of before all answer; when one dies the others end too; nothing stays
behind, whether this process ends or is killed.
"""

import os
import secrets
import socket
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from posttrain.serving.server import DRAIN, Served, Server, ServerDied
from posttrain.warden import VARIABLE, Warden

_READY_WITHIN = 900.0
_EVERY = 0.5
_TOLD_EVERY = 5.0


@contextmanager
def serving(
    checkpoints: Sequence[Served], *, host: str, port: int | None, folder: Path, backend: str,
    told: Callable[[str], None], ready_within: float = _READY_WITHIN,
) -> Iterator[list[Server]]:  # fmt: skip
    """Servers that answer, in the order of `checkpoints`, on `port` and those after it.

    Without `port` on free ones. What they print goes to `folder`. ServerDied if one is not ready
    within `ready_within` seconds.
    """
    ports = _ports(host, port, len(checkpoints))
    folder.mkdir(parents=True, exist_ok=True)
    servers = [
        Server(each, host, at, folder / f"{_file_name(each.name)}.log", backend)
        for each, at in zip(checkpoints, ports, strict=True)
    ]
    with _watched():
        try:
            for server in servers:
                server.log.unlink(missing_ok=True)
                server.start()
            _await(servers, told, time.monotonic() + ready_within)
            yield servers
        finally:
            _end(servers, told)


def watch(servers: Sequence[Server]) -> None:
    """Return never, but by ServerDied."""
    while True:
        for server in servers:
            server.check()
        time.sleep(_EVERY)


@contextmanager
def _watched() -> Iterator[None]:
    """A warden over the servers, unless this process has one over itself."""
    if VARIABLE in os.environ:
        yield
        return
    with Warden(secrets.token_hex(8)):
        yield


def _await(servers: Sequence[Server], told: Callable[[str], None], deadline: float) -> None:
    started, last = time.monotonic(), 0.0
    waiting = list(servers)
    while waiting:
        for server in servers:
            server.check()
        for server in [each for each in waiting if each.ready()]:
            told(f"{server.served.name} answers after {time.monotonic() - started:.0f} s")
            waiting.remove(server)
        now = time.monotonic()
        if waiting and now > deadline:
            raise ServerDied(
                f"the server of {waiting[0].served.name} did not answer within "
                f"{now - started:.0f} s; see {waiting[0].log}"
            )
        if waiting and now - last > _TOLD_EVERY:
            names = ", ".join(each.served.name for each in waiting)
            told(f"starting {names}: {now - started:.0f} s")
            last = now
        time.sleep(_EVERY if waiting else 0)


def _end(servers: Sequence[Server], told: Callable[[str], None]) -> None:
    for server in servers:
        server.tell_to_end()
    deadline = time.monotonic() + DRAIN + 10
    for server in servers:
        if not server.await_end(deadline):
            told(f"the server of {server.served.name} did not end by itself and was killed")


def _ports(host: str, first: int | None, count: int) -> list[int]:
    """Ports on which nobody listens; ValueError if one that was asked for is taken."""
    asked = [0] * count if first is None else list(range(first, first + count))
    held = []
    try:
        for port in asked:
            held.append(socket.socket())
            held[-1].setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            try:
                held[-1].bind((host, port))
            except (OSError, OverflowError) as fault:
                raise ValueError(f"{host}:{port} cannot be listened on: {fault}") from None
        return [each.getsockname()[1] for each in held]
    finally:
        for each in held:
            each.close()


def _file_name(name: str) -> str:
    return "".join(each if each.isalnum() or each in "-_." else "." for each in name)
