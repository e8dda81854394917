"""A real reward service in a process of its own, and what tests ask of it."""

import json
import os
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from http.client import HTTPConnection
from pathlib import Path
from typing import Any

from tests.waiting import eventually

ROOT = Path(__file__).resolve().parents[2]
FAULTY = "faulty=tests.rewards.faulty"


def start(folder: Path, *options: str, env: Mapping[str, str] | None = None) -> subprocess.Popen:
    """Start `python -m rewards serve` on a free port, which it writes to `folder`/port."""
    command = [sys.executable, "-m", "rewards", "serve", "--port", "0"]
    return subprocess.Popen(
        [*command, "--port-file", str(folder / "port"), *options],
        cwd=ROOT, env={**os.environ, **(env or {})}, stderr=subprocess.PIPE, text=True,
    )  # fmt: skip


def descendants(pid: int) -> set[int]:
    """Ids of the living processes below `pid`."""
    found = {pid}
    for _ in range(4):
        found |= {child for child, parent in _parents() if parent in found}
    return found - {pid}


def alive(pids: set[int]) -> set[int]:
    """Those of `pids` that run; a zombie does not."""
    return pids & {pid for pid, _ in _parents()}


def _parents() -> Iterator[tuple[int, int]]:
    for entry in Path("/proc").iterdir():
        if not entry.name.isdigit():
            continue
        try:
            state, parent = (entry / "stat").read_text().rpartition(")")[2].split()[:2]
        except OSError:
            continue
        if state != "Z":
            yield int(entry.name), int(parent)


@dataclass(frozen=True)
class Service:
    """A running service."""

    process: subprocess.Popen
    port: int

    @property
    def url(self) -> str:
        """Where it answers."""
        return f"http://127.0.0.1:{self.port}"

    def ask(self, method: str, path: str, body: Any = None) -> tuple[int, Any]:
        """Status and content (JSON, or text) of a reply; `body` is JSON, or bytes as they are."""
        connection = HTTPConnection("127.0.0.1", self.port, timeout=60)
        raw = body if isinstance(body, bytes | None) else json.dumps(body).encode()
        connection.request(method, path, raw)
        reply = connection.getresponse()
        text = reply.read().decode()
        connection.close()
        is_json = (reply.getheader("Content-Type") or "").startswith("application/json")
        return reply.status, json.loads(text) if is_json else text

    def score(self, *items: Mapping[str, Any]) -> list[dict[str, Any]]:
        """The verdicts on `items`."""
        status, content = self.ask("POST", "/v1/score", {"items": items})
        assert status == 200, content
        verdicts: list[dict[str, Any]] = content["verdicts"]
        return verdicts

    def faulty(self, *deeds: str) -> list[dict[str, Any]]:
        """The verdicts of the faulty verifier on `deeds`."""
        return self.score(*(faulty_item(deed) for deed in deeds))

    def is_ready(self) -> bool:
        """Whether /readyz says so; not while nothing answers."""
        try:
            return self.ask("GET", "/readyz")[0] == 200
        except OSError:
            return False


def faulty_item(deed: str) -> dict[str, Any]:
    """An item that makes the faulty verifier do `deed`."""
    return {"id": deed, "verifier": "faulty", "response": deed}


@contextmanager
def serving(folder: Path, *options: str, env: Mapping[str, str] | None = None) -> Iterator[Service]:
    """A ready service, ended with all its processes."""
    process = start(folder, *options, env=env)
    try:
        port = folder / "port"
        assert eventually(lambda: port.exists() or process.poll() is not None)
        service = Service(process, int(port.read_text()))
        assert eventually(lambda: service.is_ready() or process.poll() is not None)
        yield service
    finally:
        process.terminate()
        _, errors = process.communicate(timeout=20)
        sys.stderr.write(errors)
