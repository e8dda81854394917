"""A real reward service in a process of its own, and what tests ask of it."""

import json
import os
import re
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
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
        start_new_session=True,
    )  # fmt: skip


def prefer(pid: int) -> None:
    """Have the machine compute for a started service first, as far as it lets us say so."""
    for one in (pid, *descendants(pid)):
        with suppress(PermissionError):
            os.setpriority(os.PRIO_PROCESS, one, -10)
    with suppress(OSError):  # Where the kernel shares out time by session, as desktops do.
        Path(f"/proc/{pid}/autogroup").write_text("-10")


def descendants(pid: int) -> set[int]:
    """Ids of the living processes below `pid`."""
    found = {pid}
    for _ in range(4):
        found |= {child for child, parent in _parents() if parent in found}
    return found - {pid}


def children(pid: int) -> set[int]:
    """Ids of the living processes that `pid` started."""
    return {child for child, parent in _parents() if parent == pid}


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
class Reply:
    """Names of headers are in lower case."""

    status: int
    headers: Mapping[str, str]
    body: bytes


@dataclass(frozen=True)
class Service:
    """A running service."""

    process: subprocess.Popen
    port: int
    token: str | None = None

    @property
    def url(self) -> str:
        """Where it answers."""
        return f"http://127.0.0.1:{self.port}"

    def exchange(self, method: str, path: str, body: bytes | None = None, **headers: str) -> Reply:
        """One request and its reply; an underscore of a header's name stands for a dash."""
        connection = HTTPConnection("127.0.0.1", self.port, timeout=60)
        named = {} if self.token is None else {"authorization": f"Bearer {self.token}"}
        named |= {name.replace("_", "-"): value for name, value in headers.items()}
        connection.request(method, path, body, named)
        reply = connection.getresponse()
        content = reply.read()
        connection.close()
        return Reply(reply.status, {k.lower(): v for k, v in reply.getheaders()}, content)

    def ask(self, method: str, path: str, body: Any = None) -> tuple[int, Any]:
        """Status and content (JSON, or text) of a reply; `body` is JSON, or bytes as they are."""
        raw = body if isinstance(body, bytes | None) else json.dumps(body).encode()
        reply = self.exchange(method, path, raw)
        is_json = reply.headers["content-type"].startswith("application/json")
        return reply.status, json.loads(reply.body) if is_json else reply.body.decode()

    def score(self, *items: Mapping[str, Any]) -> list[dict[str, Any]]:
        """The verdicts on `items`."""
        status, content = self.ask("POST", "/v1/score", {"items": items})
        assert status == 200, content
        verdicts: list[dict[str, Any]] = content["verdicts"]
        return verdicts

    def faulty(self, *deeds: str) -> list[dict[str, Any]]:
        """The verdicts of the faulty verifier on `deeds`."""
        return self.score(*(faulty_item(deed) for deed in deeds))

    def counted(self, name: str, **labels: str) -> float:
        """The sum of a metric over all its series with these `labels`."""
        _, text = self.ask("GET", "/metrics")
        rows = re.findall(rf"^{name}(?:{{(.*)}})? (\S+)$", text, re.MULTILINE)
        wanted = {f'{label}="{value}"' for label, value in labels.items()}
        return sum(float(value) for found, value in rows if wanted <= set(found.split(",")))

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
def serving(
    folder: Path, *options: str, env: Mapping[str, str] | None = None, token: str | None = None
) -> Iterator[Service]:
    """A ready service, ended with all its processes."""
    process = start(folder, *options, env=env)
    try:
        port = folder / "port"
        assert eventually(lambda: port.exists() or process.poll() is not None)
        service = Service(process, int(port.read_text()), token)
        assert eventually(lambda: service.is_ready() or process.poll() is not None)
        yield service
    finally:
        process.terminate()
        _, errors = process.communicate(timeout=20)
        sys.stderr.write(errors)
