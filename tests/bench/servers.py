"""Servers in processes of their own, and what their processes use."""

import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from http.client import HTTPConnection
from pathlib import Path

from tests.rewards.service import descendants
from tests.waiting import eventually

_TICKS = os.sysconf("SC_CLK_TCK")


@dataclass(frozen=True)
class Server:
    """A running server."""

    pid: int
    url: str

    @property
    def cpu(self) -> float:
        """CPU seconds its processes have used, those that have ended too."""
        return sum(_cpu(pid) for pid in {self.pid} | descendants(self.pid))

    @property
    def memory(self) -> int:
        """Bytes its processes hold, shared pages by their share."""
        return sum(_memory(pid) for pid in {self.pid} | descendants(self.pid))


@contextmanager
def rewards(folder: Path, verifiers: str, workers: int) -> Iterator[Server]:
    """The reward service."""
    options = ["serve", "--port", "0", "--verifiers", verifiers, "--workers", str(workers)]
    with _running(folder, "rewards", [*options, "--queue", "100000"]) as server:
        yield server


@contextmanager
def peer(folder: Path, name: str, workers: int = 1) -> Iterator[Server]:
    """One of `peers.py`."""
    with _running(folder, "tests.bench.peers", [name, f"--workers={workers}"]) as server:
        yield server


@contextmanager
def _running(folder: Path, module: str, options: list[str]) -> Iterator[Server]:
    port = folder / f"{module}-port"
    port.unlink(missing_ok=True)
    process = subprocess.Popen(
        [sys.executable, "-m", module, *options, "--port-file", str(port)],
        stdout=subprocess.DEVNULL,
    )
    try:
        ended = eventually(lambda: _ready(port) or process.poll() is not None, within=60)
        assert ended, f"{module} is not ready within 60 s"
        assert process.returncode is None, f"{module} does not start; its output says why"
        yield Server(process.pid, f"http://127.0.0.1:{int(port.read_text())}")
    finally:
        process.terminate()
        process.wait(30)


def _ready(port: Path) -> bool:
    """Whether it answers at the port in that file; a peer knows no such path and says 404."""
    if not (port.exists() and port.read_text()):
        return False
    connection = HTTPConnection("127.0.0.1", int(port.read_text()), timeout=5)
    try:
        connection.request("GET", "/readyz")
        return connection.getresponse().status in (200, 404)
    except OSError:
        return False
    finally:
        connection.close()


def _cpu(pid: int) -> float:
    try:
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return 0.0
    return sum(map(int, fields[11:15])) / _TICKS


def _memory(pid: int) -> int:
    try:
        lines = Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines()
    except OSError:
        return 0
    return sum(int(line.split()[1]) * 1024 for line in lines if line.startswith("Pss:"))
