"""The service as a process: options in, exit code out.

Exit codes: 0 stopped, 2 wrong options, 4 the machine failed us (port taken, no worker starts).
"""

import asyncio
import errno
import gc
import ipaddress
import os
import signal
import socket
import sys
from collections.abc import Callable, Mapping, Sequence
from contextlib import closing, nullcontext, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from rewards.nursery import Nursery, StartFault
from rewards.verifiers import SELF_CONTAINED, Profile, select

if TYPE_CHECKING:
    import uvicorn

    from rewards.ledger import Ledger
    from rewards.service import Service

TOKEN = "REWARDS_TOKEN"
"""Environment variable with the bearer token."""

_BACKLOG = 2048
_KEEP_ALIVE = 75
_WATCH = 0.2


@dataclass(frozen=True)
class ServeOptions:
    """How to serve.

    `port` 0 takes a free one, written to `port_file` once bound. `verifiers` are `NAME` or
    `NAME=MODULE`. `deadline` is in seconds a check, `queue` in items that may wait, `drain` in
    seconds that requests under way have at the end, `cache` in verdicts remembered. `ledger` is a
    folder. Without a `token_file` the token is that of the environment variable REWARDS_TOKEN.
    """

    host: str = "127.0.0.1"
    port: int = 8090
    port_file: Path | None = None
    verifiers: Sequence[str] = SELF_CONTAINED
    workers: int | None = None
    deadline: float = 10.0
    queue: int = 4096
    drain: float = 5.0
    cache: int = 8192
    token_file: Path | None = None
    ledger: Path | None = None


class WrongOption(ValueError):
    """An option cannot be followed; the message says which and what to do."""


Started = Callable[[int, Sequence[Profile]], None]
"""What is called with the port and what is served there."""


def serve(options: ServeOptions, started: Started = lambda port, profiles: None) -> int:
    """Serve until a signal; returns the exit code, having told the reason of any other than 0.

    `started` is called once the verifiers are loaded and their settings are known to be right.
    """
    try:
        verifiers = select(options.verifiers)
        token = _token(options)
        ledger = _ledger(options)
    except (ValueError, OSError) as fault:
        return _told(2, str(fault))
    try:
        with nullcontext() if ledger is None else closing(ledger):
            return _listen(options, verifiers, token, ledger, started)
    except OSError as fault:  # The ledger's.
        return _told(4, str(fault))


def _listen(
    options: ServeOptions,
    verifiers: Mapping[str, str],
    token: str | None,
    ledger: "Ledger | None",
    started: Started,
) -> int:
    try:
        listener = _bind(options.host, options.port)
    except OSError as fault:
        return _told(4, _why(fault, options))
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: sys.exit(0))
    if options.port_file is not None:
        _publish(listener.getsockname()[1], options.port_file)
    with listener:
        return _run(listener, options, Nursery(verifiers), token, ledger, started)


def _told(code: int, reason: str) -> int:
    print(f"rewards: {reason}", file=sys.stderr)
    return code


def _token(options: ServeOptions) -> str | None:
    """The token, if there is one. WrongOption where there must be, or if it is empty."""
    if options.token_file is None:
        token = os.environ.get(TOKEN) or None
    else:
        try:
            token = options.token_file.read_text().strip()
        except OSError as fault:
            raise WrongOption(
                f"--token-file {options.token_file} cannot be read: {fault.strerror}"
            ) from None
        if not token:
            raise WrongOption(f"{options.token_file} is empty; write a token to it")
    if token is None and not _is_loopback(options.host):
        raise WrongOption(
            f"{options.host} can be reached by others: give --token-file, or {TOKEN} in the "
            "environment, or listen on 127.0.0.1"
        )
    return token


def _is_loopback(host: str) -> bool:
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


def _ledger(options: ServeOptions) -> "Ledger | None":
    if options.ledger is None:
        return None
    from rewards.ledger import Ledger  # Only here: what it stands on takes a while to import.

    return Ledger(options.ledger)


def _bind(host: str, port: int) -> socket.socket:
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    return socket.create_server((host, port), family=family, backlog=_BACKLOG)


def _why(fault: OSError, options: ServeOptions) -> str:
    if fault.errno == errno.EADDRINUSE:
        return (
            f"port {options.port} on {options.host} is in use; choose another --port, or 0 for a "
            "free one"
        )
    where = f"{options.host}:{options.port}"
    return f"cannot listen on {where}: {fault.strerror or fault}; choose another --host"


def _publish(port: int, path: Path) -> None:
    """Write the port so that a reader sees all of it or nothing."""
    draft = path.with_name(f".{path.name}.{os.getpid()}")
    draft.write_text(f"{port}\n")
    draft.replace(path)


def _run(
    listener: socket.socket,
    options: ServeOptions,
    nursery: Nursery,
    token: str | None,
    ledger: "Ledger | None",
    started: Started,
) -> int:
    """Serve until a signal or until no worker can be started."""
    import uvicorn  # Here, and the app's imports too: the zygote warms up meanwhile.
    import uvloop

    from rewards.app import create_app
    from rewards.metrics import Metrics
    from rewards.protocol import Protocol
    from rewards.service import Service
    from rewards.watch import Limits

    metrics = Metrics()
    limits = Limits(options.workers or os.cpu_count() or 1, options.deadline, options.queue)
    service = Service(nursery, limits, metrics, remembered=options.cache, ledger=ledger)
    config = uvicorn.Config(
        create_app(service, metrics, token), log_level="warning", access_log=False,
        http=Protocol, ws="none", proxy_headers=False, timeout_keep_alive=_KEEP_ALIVE,
        timeout_graceful_shutdown=options.drain,
    )  # fmt: skip
    gc.collect()
    gc.freeze()
    gc.set_threshold(10_000, 20, 20)  # A request's objects hold no cycles worth a search.
    server = uvicorn.Server(config)
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        runner.run(_serve(server, listener, service, started))
    if service.broken is None:
        return 0
    return _told(2 if service.misconfigured else 4, service.broken)


async def _serve(
    server: "uvicorn.Server", listener: socket.socket, service: "Service", started: Started
) -> None:
    watches = [
        asyncio.create_task(_stop_if_broken(service, server)),
        asyncio.create_task(_tell(service, listener.getsockname()[1], started)),
    ]
    await server.serve(sockets=[listener])
    for watch in watches:
        watch.cancel()


async def _tell(service: "Service", port: int, started: Started) -> None:
    with suppress(StartFault):  # Whoever watches tells it.
        await service.started()
        started(port, service.profiles)


async def _stop_if_broken(service: "Service", server: "uvicorn.Server") -> None:
    while service.broken is None:
        await asyncio.sleep(_WATCH)
    server.should_exit = True
