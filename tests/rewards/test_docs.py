"""docs/rewards.md works: its commands run in their order, and print what it says they print.

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
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from http.client import HTTPConnection
from pathlib import Path
from typing import Any

from rewards.metrics import Metrics
from rewards.verifiers import BUILT_IN
from rewards.verifiers.normalisers import NORMALISERS
from tests.waiting import eventually

PAGE = Path(__file__).parents[2] / "docs/rewards.md"
BLOCK = re.compile(r"^```(bash server|bash|json)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
PORT = re.compile(r"\b80[89]\d\b")
TIMES = ("elapsed_ms",)


def test_the_page_does_what_it_says(tmp_path: Path) -> None:
    page = PAGE.read_text()
    with ExitStack() as stack:
        ports = {port: stack.enter_context(reserved()) for port in sorted(set(PORT.findall(page)))}
        text = PORT.sub(lambda found: str(ports[found[0]].getsockname()[1]), page)
        for listener in ports.values():
            listener.close()
        printed = ""
        for kind, content in BLOCK.findall(text):
            if kind == "json":
                assert without_times(json.loads(printed)) == without_times(json.loads(content))
            elif kind == "bash":
                printed = run(content, tmp_path)
            else:
                stack.enter_context(serving(content, tmp_path))


@contextmanager
def reserved() -> Iterator[socket.socket]:
    """A listener on a free port."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        yield listener


def environment() -> dict[str, str]:
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
    (line,) = block.strip().splitlines()
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
        os.killpg(process.pid, signal.SIGTERM)
        process.wait(30)


def ready(port: int) -> bool:
    """Whether it verifies, or would if we had the token."""
    connection = HTTPConnection("127.0.0.1", port, timeout=5)
    try:
        connection.request("GET", "/readyz")
        return connection.getresponse().status in (200, 401)
    except OSError:
        return False
    finally:
        connection.close()


def test_the_page_names_all_there_is() -> None:
    page = PAGE.read_text()
    metrics = Metrics()
    metrics.gauges["rewards_items_waiting"] = ("", lambda: 0.0)
    counted = {family.name for family in metrics.collect()}
    for name in {*NORMALISERS, *BUILT_IN, *counted}:
        assert re.search(rf"`{name}(_total)?`", page), name


def without_times(content: Any) -> Any:
    if isinstance(content, dict):
        return {key: without_times(value) for key, value in content.items() if key not in TIMES}
    if isinstance(content, list):
        return [without_times(value) for value in content]
    return content
