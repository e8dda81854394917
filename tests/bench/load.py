"""HTTP load from a process of its own: bodies over kept-alive connections, each busy at any time.

Requests are ready-made bytes and replies are only cut, not parsed, since the clients of the field
cost more per request than the servers measured here. Replies need a Content-Length.
"""

import argparse
import asyncio
import json
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, field
from itertools import cycle
from pathlib import Path
from typing import cast
from urllib.parse import urlsplit

import uvloop

_LENGTH = b"content-length:"
_LONGEST = 240.0


@dataclass(frozen=True)
class Measured:
    """Requests answered with 200, those answered otherwise, and latencies in ms."""

    requests: int
    refused: int
    seconds: float
    p50: float
    p99: float

    @property
    def rate(self) -> float:
        """Good requests a second."""
        return self.requests / self.seconds


def load(
    url: str, bodies: Sequence[bytes], folder: Path, *, connections: int = 64,
    seconds: float | None = None,
) -> Measured:  # fmt: skip
    """Post `bodies` to `url`, each once, or over and over for `seconds`."""
    path = folder / "bodies"
    path.write_bytes(b"\n".join(bodies))
    command = [sys.executable, "-m", "tests.bench.load", url, str(path)]
    command.append(f"--connections={connections}")
    if seconds is not None:
        command.append(f"--seconds={seconds}")
    done = subprocess.run(command, capture_output=True, text=True, timeout=300, check=True)
    return Measured(**json.loads(done.stdout))


@dataclass
class _Run:
    requests: Iterator[bytes]
    end: float
    open: int
    ended: asyncio.Event = field(default_factory=asyncio.Event)
    latencies: list[float] = field(default_factory=list)
    refused: int = 0

    def next(self) -> bytes | None:
        return next(self.requests, None) if time.perf_counter() < self.end else None

    def close(self) -> None:
        self.open -= 1
        if not self.open:
            self.ended.set()


class _Connection(asyncio.Protocol):
    def __init__(self, run: _Run) -> None:
        self._run = run
        self._received = b""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)
        self._send()

    def connection_lost(self, _: Exception | None) -> None:
        self._run.close()

    def data_received(self, data: bytes) -> None:
        self._received += data
        head = self._received.find(b"\r\n\r\n")
        if head < 0 or len(self._received) < head + 4 + self._length(head):
            return
        if self._received[9:12] == b"200":
            self._run.latencies.append(time.perf_counter() - self._sent)
        else:
            self._run.refused += 1
        self._received = b""
        self._send()

    def _length(self, head: int) -> int:
        at = self._received.lower().find(_LENGTH, 0, head) + len(_LENGTH)
        return int(self._received[at : self._received.find(b"\r\n", at)])

    def _send(self) -> None:
        request = self._run.next()
        if request is None:
            self._transport.close()
            return
        self._sent = time.perf_counter()
        self._transport.write(request)


async def _measured(
    url: str, bodies: Sequence[bytes], connections: int, seconds: float
) -> Measured:
    place = urlsplit(url)
    host, port = place.hostname, place.port
    assert host is not None
    assert port is not None, f"{url} names no port"
    requests = [_request(place.netloc, place.path, body) for body in bodies]
    again = seconds != float("inf")
    start = time.perf_counter()
    run = _Run(cycle(requests) if again else iter(requests), start + seconds, connections)
    connect = asyncio.get_running_loop().create_connection
    await asyncio.gather(
        *(connect(lambda: _Connection(run), host, port) for _ in range(connections))
    )
    async with asyncio.timeout(_LONGEST):
        await run.ended.wait()
    took = time.perf_counter() - start
    ordered = sorted(1000 * latency for latency in run.latencies) or [float("inf")]
    middle, last = (ordered[int(share * (len(ordered) - 1))] for share in (0.5, 0.99))
    return Measured(len(run.latencies), run.refused, took, middle, last)


def _request(host: str, path: str, body: bytes) -> bytes:
    head = f"POST {path} HTTP/1.1\r\nHost: {host}\r\nContent-Type: application/json\r\n"
    return f"{head}Content-Length: {len(body)}\r\n\r\n".encode() + body


def main() -> None:
    """Print what was measured as JSON."""
    parser = argparse.ArgumentParser()
    parser.add_argument("url")
    parser.add_argument("bodies", type=Path, help="one request body a line")
    parser.add_argument("--connections", type=int, required=True)
    parser.add_argument("--seconds", type=float, default=float("inf"))
    options = parser.parse_args()
    bodies = options.bodies.read_bytes().split(b"\n")
    measured = uvloop.run(_measured(options.url, bodies, options.connections, options.seconds))
    print(json.dumps(asdict(measured)))


if __name__ == "__main__":
    main()
