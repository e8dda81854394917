"""A real sandbox service in a process of its own, and what tests ask of it."""

import itertools
import json
import os
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from http.client import HTTPConnection
from pathlib import Path
from typing import Any

from tests.waiting import eventually

ROOT = Path(__file__).resolve().parents[2]
_IDS = itertools.count()


def start(folder: Path, *options: str, env: Mapping[str, str] | None = None) -> subprocess.Popen:
    """Start `python -m sandbox serve` on a free port, which it writes to `folder`/port."""
    command = [sys.executable, "-m", "sandbox", "serve", "--port", "0"]
    return subprocess.Popen(
        [*command, "--port-file", str(folder / "port"), *options],
        cwd=ROOT, env={**os.environ, **(env or {})}, stderr=subprocess.PIPE, text=True,
    )  # fmt: skip


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

    def ask(self, method: str, path: str, body: Any = None, **headers: str) -> tuple[int, Any]:
        """Status and content (JSON, or text) of a reply; `body` is JSON, or bytes as they are."""
        connection = HTTPConnection("127.0.0.1", self.port, timeout=120)
        raw = body if isinstance(body, bytes | None) else json.dumps(body).encode()
        if self.token is not None:
            headers = {"Authorization": f"Bearer {self.token}", **headers}
        connection.request(method, path, raw, headers)
        reply = connection.getresponse()
        text = reply.read().decode()
        connection.close()
        is_json = (reply.getheader("Content-Type") or "").startswith("application/json")
        return reply.status, json.loads(text) if is_json else text

    def execute(self, **submission: Any) -> dict[str, Any]:
        """The result of a submission; it gets an id if it has none."""
        body = {"id": f"t{next(_IDS)}", **submission}
        status, content = self.ask("POST", "/v1/execute", body)
        assert status == 200, content
        result: dict[str, Any] = content
        return result

    def stdio(self, code: str, expected: str, stdin: str = "", **more: Any) -> dict[str, Any]:
        """The result of a program with one test."""
        tests = [{"stdin": stdin, "expected": expected}]
        return self.execute(mode="stdio", code=code, tests=tests, **more)

    def call(
        self, code: str, function: str, args: Sequence[Any], expected: Any, **more: Any
    ) -> dict[str, Any]:
        """The result of a function with one test."""
        tests = [{"args": list(args), "expected": expected}]
        return self.execute(mode="function", function=function, code=code, tests=tests, **more)

    def asserts(self, code: str, *tests: str, **more: Any) -> dict[str, Any]:
        """The result of asserts."""
        listed = [{"code": test} for test in tests]
        return self.execute(mode="assert", code=code, tests=listed, **more)

    def pytest(self, code: str, tests: str, **more: Any) -> dict[str, Any]:
        """The result of a pytest file."""
        return self.execute(mode="pytest", code=code, files={"test_solution.py": tests}, **more)

    def is_ready(self) -> bool:
        """Whether /readyz says so; not while nothing answers."""
        try:
            return self.ask("GET", "/readyz")[0] == 200
        except OSError:
            return False


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
        _, errors = process.communicate(timeout=60)
        sys.stderr.write(errors)
