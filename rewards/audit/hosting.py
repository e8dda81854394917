"""Services on loopback for as long as they are needed, each in a process of its own.

They end with the process that needs them, even if that is killed.
"""

import ctypes
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from http.client import HTTPConnection
from pathlib import Path

SANDBOX_URL = "SANDBOX_URL"
"""Environment variable from which the `code` verifier learns where its sandbox is."""

_PR_SET_PDEATHSIG = 1
_START = 90.0
_END = 20.0
_PAUSE = 0.1


class HostingFault(Exception):
    """A service did not start."""


@contextmanager
def rewards_service(
    verifiers: Sequence[str], sandbox: str | None = None, *, workers: int = 2
) -> Iterator[str]:
    """URL of a ready reward service; with `code` among `verifiers` a sandbox too, if none is given.

    HostingFault if one of them is not ready within 90 s.
    """
    with ExitStack() as stack:
        environment = {"REWARDS_TOKEN": ""}  # It is ours alone; the caller's is for others.
        if "code" in verifiers and sandbox is None:
            environment["SANDBOX_TOKEN"] = ""
            slots = ["--slots", str(max(workers, 2))]
            sandbox = stack.enter_context(_hosted("sandbox", slots, environment))
        options = ["--verifiers", ",".join(verifiers), "--workers", str(workers)]
        if sandbox is not None:
            environment[SANDBOX_URL] = sandbox
        yield stack.enter_context(_hosted("rewards", options, environment))


@contextmanager
def _hosted(module: str, options: Sequence[str], environment: Mapping[str, str]) -> Iterator[str]:
    with tempfile.TemporaryDirectory(prefix=f"{module}-") as folder:
        port = Path(folder) / "port"
        process = subprocess.Popen(
            [sys.executable, "-m", module, "serve", "--port", "0", "--port-file", port, *options],
            env={**os.environ, **environment},
            stdout=subprocess.DEVNULL,
            preexec_fn=_end_with_parent,
        )
        try:
            yield _ready(process, module, port)
        finally:
            _end(process)


def _end_with_parent() -> None:
    ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGTERM)


def _ready(process: subprocess.Popen[bytes], module: str, port: Path) -> str:
    end = time.monotonic() + _START
    while process.poll() is None and time.monotonic() < end:
        if port.exists() and _answers(int(port.read_text())):
            return f"http://127.0.0.1:{int(port.read_text())}"
        time.sleep(_PAUSE)
    if (code := process.poll()) is not None:
        raise HostingFault(f"the {module} service ended (exit {code}); its reason is above")
    raise HostingFault(f"no {module} service was ready within {_START:g} s; its output says why")


def _answers(port: int) -> bool:
    connection = HTTPConnection("127.0.0.1", port, timeout=5)
    try:
        connection.request("GET", "/readyz")
        return connection.getresponse().status == 200
    except OSError:
        return False
    finally:
        connection.close()


def _end(process: subprocess.Popen[bytes]) -> None:
    process.terminate()
    try:
        process.wait(_END)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()
