"""The service as a process: options in, exit code out.

Exit codes: 0 stopped, 2 wrong options, 4 the machine failed us (port taken, the tier cannot be
had here). Another tier than the one asked for is never taken instead.
"""

import asyncio
import errno
import ipaddress
import os
import signal
import socket
import sys
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from sandbox.languages import Language, load
from sandbox.offer import TierChoice, proven
from sandbox.tiers import NotOffered

if TYPE_CHECKING:
    from sandbox.schema import Capabilities
    from sandbox.slots import Pool
    from sandbox.tiers import Tier

TOKEN = "SANDBOX_TOKEN"
"""Environment variable with the bearer token."""

LEAST_SLOTS = 2
"""Tests that run beside the program need a slot each."""

_BACKLOG = 2048


@dataclass(frozen=True)
class ServeOptions:
    """How to serve.

    `port` 0 takes a free one, written to `port_file` once bound. `slots` are programs at once, by
    default as many as cores. `queue` is in submissions that may wait, `drain` in seconds that
    requests under way have at the end. `languages` is a file as in languages.py. Without a
    `token_file` the token is that of the environment variable SANDBOX_TOKEN.
    """

    host: str = "127.0.0.1"
    port: int = 8091
    port_file: Path | None = None
    tier: TierChoice = field(default_factory=TierChoice)
    slots: int | None = None
    queue: int = 512
    drain: float = 30.0
    languages: Path | None = None
    token_file: Path | None = None


def serve(options: ServeOptions) -> int:
    """Serve until a signal; returns the exit code, having told the reason of any other than 0."""
    try:
        tier = options.tier.opened()
        languages = load(options.languages)
        token = _token(options)
    except ValueError as fault:
        return _told(2, str(fault))
    except OSError as fault:
        return _told(4, str(fault))
    try:
        listener = _bind(options.host, options.port)
    except OSError as fault:
        return _told(4, _why(fault, options))
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: sys.exit(0))
    with listener:
        try:
            asyncio.run(_serve(listener, options, tier, languages, token))
        except NotOffered as fault:
            return _told(4, str(fault))
    return 0


def _told(code: int, reason: str) -> int:
    print(f"sandbox: {reason}", file=sys.stderr)
    return code


def _token(options: ServeOptions) -> str | None:
    """The token, if there is one; ValueError where there must be."""
    file = options.token_file
    token = (os.environ.get(TOKEN) or None) if file is None else _read_token(file)
    if token is None and not _is_loopback(options.host):
        raise ValueError(
            f"{options.host} can be reached by others: give --token-file, or {TOKEN} in the "
            "environment, or listen on 127.0.0.1"
        )
    return token


def _read_token(file: Path) -> str:
    try:
        token = file.read_text("utf-8").strip()
    except OSError as fault:
        raise ValueError(f"token file {file} cannot be read: {fault.strerror}") from None
    if not token:
        raise ValueError(f"token file {file} is empty; write a token to it")
    return token


def _is_loopback(host: str) -> bool:
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


def _bind(host: str, port: int) -> socket.socket:
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    return socket.create_server((host, port), family=family, backlog=_BACKLOG)


def _why(fault: OSError, options: ServeOptions) -> str:
    if fault.errno == errno.EADDRINUSE:
        taken = f"port {options.port} on {options.host} is in use"
        return f"{taken}; choose another --port, or 0 for a free one"
    where = f"{options.host}:{options.port}"
    return f"cannot listen on {where}: {fault.strerror or fault}; choose another --host"


def _publish(port: int, path: Path) -> None:
    """Write the port so that a reader sees all of it or nothing."""
    draft = path.with_name(f".{path.name}.{os.getpid()}")
    draft.write_text(f"{port}\n")
    draft.replace(path)


async def _serve(
    listener: socket.socket,
    options: ServeOptions,
    tier: "Tier",
    languages: Mapping[str, Language],
    token: str | None,
) -> None:
    import uvicorn  # Here, and the app's imports too: a wrong option is told at once.

    from sandbox.app import create_app
    from sandbox.desk import Desk
    from sandbox.judging.execution import Executor
    from sandbox.metrics import Metrics
    from sandbox.slots import Pool

    slots = max(options.slots or os.cpu_count() or 1, LEAST_SLOTS)
    self_test = await proven(tier)
    metrics = Metrics()
    async with Pool(tier, slots, metrics) as pool:
        offered = await _capabilities(pool, languages, self_test)
        desk = Desk(Executor(pool, languages), metrics, slots + options.queue)
        server = uvicorn.Server(
            uvicorn.Config(
                create_app(desk, pool, metrics, offered, token), log_level="warning",
                http="h11", ws="none",  # It bounds a request's head.
                access_log=False, proxy_headers=False, timeout_graceful_shutdown=options.drain,
            )
        )  # fmt: skip
        if options.port_file is not None:
            _publish(listener.getsockname()[1], options.port_file)
        await server.serve(sockets=[listener])
        await desk.close()


async def _capabilities(
    pool: "Pool", languages: Mapping[str, Language], self_test: Mapping[str, Any]
) -> "Capabilities":
    """What is offered, with the versions that the programs themselves will meet."""
    from sandbox.judging.execution import modes
    from sandbox.offer import versions
    from sandbox.schema import Capabilities
    from sandbox.version import version

    found = await versions(pool, languages)
    return Capabilities(
        version=version(), tier=pool.tier.name, enforces=pool.tier.enforces(), languages=found,
        modes={name: modes(name) for name in found}, slots=pool.size, self_test=self_test,
    )  # fmt: skip
