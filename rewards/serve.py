"""The service as a process: options in, exit code out.

Exit codes: 0 stopped, 2 wrong options, 4 the machine failed us (port taken, no worker starts).
"""

import argparse
import asyncio
import errno
import os
import signal
import socket
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rewards.nursery import Nursery
from rewards.verifiers import BUILT_IN, select

if TYPE_CHECKING:
    import uvicorn

    from rewards.workers import Pool

_BACKLOG = 2048
_GRACE = 1
_WATCH = 0.2


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line; returns the exit code."""
    options = _parser().parse_args(arguments)
    try:
        verifiers = select(options.verifiers.split(","))
    except ValueError as fault:
        print(f"rewards: {fault}", file=sys.stderr)
        return 2
    try:
        listener = _bind(options.host, options.port)
    except OSError as fault:
        print(f"rewards: {_why(fault, options.host, options.port)}", file=sys.stderr)
        return 4
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: sys.exit(0))
    if options.port_file is not None:
        _publish(listener.getsockname()[1], options.port_file)
    with listener:
        return asyncio.run(_serve(listener, options, Nursery(verifiers)))


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="rewards", description="Verifiers behind HTTP.")
    commands = parser.add_subparsers(dest="command", required=True)
    serve = commands.add_parser("serve", help="serve verifiers until stopped")
    serve.add_argument("--host", default="127.0.0.1")
    serve.add_argument("--port", type=int, default=8090, help="0 takes a free one")
    serve.add_argument("--port-file", type=Path, help="where to write the port once bound")
    serve.add_argument(
        "--verifiers", default=",".join(BUILT_IN), metavar="NAME[=MODULE],...",
        help="what to serve (default: %(default)s)",
    )  # fmt: skip
    serve.add_argument("--workers", type=_positive(int), default=1, help="worker processes")
    serve.add_argument(
        "--deadline", type=_positive(float), default=10.0, help="seconds a check may take"
    )
    serve.add_argument(
        "--queue", type=_positive(int), default=4096, help="items that may wait for a worker"
    )
    return parser


def _positive(kind: type[Any]) -> Callable[[str], Any]:
    def read(text: str) -> Any:
        value = kind(text)
        if not value > 0:
            raise ValueError(text)
        return value

    read.__name__ = f"positive {kind.__name__}"  # argparse names it in its message.
    return read


def _bind(host: str, port: int) -> socket.socket:
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    return socket.create_server((host, port), family=family, backlog=_BACKLOG)


def _why(fault: OSError, host: str, port: int) -> str:
    if fault.errno == errno.EADDRINUSE:
        return f"port {port} on {host} is in use; choose another --port, or 0 for a free one"
    return f"cannot listen on {host}:{port}: {fault.strerror or fault}; choose another --host"


def _publish(port: int, path: Path) -> None:
    """Write the port so that a reader sees all of it or nothing."""
    draft = path.with_name(f".{path.name}.{os.getpid()}")
    draft.write_text(f"{port}\n")
    draft.replace(path)


async def _serve(listener: socket.socket, options: argparse.Namespace, nursery: Nursery) -> int:
    """Serve until a signal or until no worker can be started."""
    import uvicorn  # Here, and the app's imports too: the zygote warms up meanwhile.

    from rewards.app import create_app
    from rewards.metrics import Metrics
    from rewards.workers import Limits, Pool

    metrics = Metrics()
    limits = Limits(options.workers, options.deadline, options.queue)
    pool = Pool(nursery, limits, metrics)
    server = uvicorn.Server(
        uvicorn.Config(
            create_app(pool, metrics), log_level="warning", access_log=False,
            timeout_graceful_shutdown=_GRACE,
        )
    )  # fmt: skip
    watch = asyncio.create_task(_stop_if_broken(pool, server))
    await server.serve(sockets=[listener])
    watch.cancel()
    if pool.broken is None:
        return 0
    print(f"rewards: no worker can be started: {pool.broken}", file=sys.stderr)
    return 4


async def _stop_if_broken(pool: "Pool", server: "uvicorn.Server") -> None:
    while pool.broken is None:
        await asyncio.sleep(_WATCH)
    server.should_exit = True
