"""A page of the docs as what it tells to do: its commands run in their order, in one folder.

Of the fenced blocks ```bash is run, ```bash server is started and left running to the end of the
page, and ```json is what the block before it prints, but for times. ```sh is only shown: what
installs, or needs another machine. The ports of the page are replaced by free ones.
"""

import json
import os
import re
import signal
import socket
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, ExitStack, contextmanager, suppress
from http.client import HTTPConnection
from pathlib import Path
from typing import Any

from tests.waiting import eventually

DOCS = Path(__file__).parents[1] / "docs"
BLOCK = re.compile(r"^```(bash server|bash|json)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
PORT = re.compile(r"\b80[089]\d\b")
TIMES = ("elapsed_ms", "wall_s", "cpu_s", "queue_s", "peak_mb")

Servers = Mapping[str, Callable[[int], AbstractContextManager[None]]]
"""By the port that a page names: what serves there, given the port it has in truth."""


def follow(page: str, folder: Path, elsewhere: Servers | None = None) -> None:
    """Do in `folder` what a page says; `elsewhere` stands for servers that it does not start."""
    with ExitStack() as stack:
        ports = {port: stack.enter_context(reserved()) for port in sorted(set(PORT.findall(page)))}
        numbers = {port: listener.getsockname()[1] for port, listener in ports.items()}
        text = PORT.sub(lambda found: str(numbers[found[0]]), page)
        for listener in ports.values():
            listener.close()
        for port, server in (elsewhere or {}).items():
            stack.enter_context(server(numbers[port]))
        printed = ""
        for kind, content in BLOCK.findall(text):
            if kind == "json":
                assert without_times(json.loads(printed)) == without_times(json.loads(content))
            elif kind == "bash":
                printed = run(content, folder)
            else:
                stack.enter_context(serving(content, folder))


@contextmanager
def reserved() -> Iterator[socket.socket]:
    """A listener on a free port."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        yield listener


def environment() -> dict[str, str]:
    """Ours, in which the commands of this Python come first."""
    return {**os.environ, "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}"}


def run(block: str, folder: Path) -> str:
    """What `block` prints, in `folder`."""
    done = subprocess.run(
        ["bash", "-euo", "pipefail", "-c", block], cwd=folder, env=environment(),
        capture_output=True, text=True, timeout=200, check=False,
    )  # fmt: skip
    assert done.returncode == 0, f"{block}\n{done.stdout}\n{done.stderr}"
    return done.stdout


@contextmanager
def serving(block: str, folder: Path) -> Iterator[None]:
    """The server that `block` starts, ready on the port it names last."""
    line = block.replace("\\\n", " ").strip()
    port = int(re.findall(r"--port (\d+)", line)[-1])
    process = subprocess.Popen(
        ["bash", "-c", line], cwd=folder, env=environment(), start_new_session=True,
        stdout=subprocess.DEVNULL,
    )  # fmt: skip
    try:
        assert eventually(lambda: ready(port) or process.poll() is not None, within=90)
        assert process.poll() is None, f"{line} ended"
        yield
    finally:
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGTERM)
        process.wait(30)


def ready(port: int) -> bool:
    """Whether it serves, or would if we had the token."""
    connection = HTTPConnection("127.0.0.1", port, timeout=5)
    try:
        connection.request("GET", "/readyz")
        return connection.getresponse().status in (200, 401)
    except OSError:
        return False
    finally:
        connection.close()


def without_times(content: Any) -> Any:
    """JSON without what differs from run to run."""
    if isinstance(content, dict):
        return {key: without_times(value) for key, value in content.items() if key not in TIMES}
    if isinstance(content, list):
        return [without_times(value) for value in content]
    return content
