"""The warden: when a controller ends or dies, nothing it started stays behind.

Every process a run starts inherits `POSTTRAIN_RUN=<token>` in its environment, however often it
forks or changes its group. A small watcher holds a pipe whose other end only the controller has;
when that closes, by exit or by kill -9, the watcher kills all that carry the token.
"""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from types import TracebackType

VARIABLE = "POSTTRAIN_RUN"
_PATIENCE = 10.0


class Warden:
    """Marks this process's future children with `token` and has them watched while it is open."""

    def __init__(self, token: str) -> None:
        self._token = token
        self._watcher: subprocess.Popen[bytes] | None = None

    def __enter__(self) -> "Warden":
        self._watcher = subprocess.Popen(
            [sys.executable, "-S", "-m", "posttrain.warden", self._token],
            stdin=subprocess.PIPE, start_new_session=True,
            cwd=Path(__file__).resolve().parent.parent,
        )  # fmt: skip
        os.environ[VARIABLE] = self._token
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        fault: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        del os.environ[VARIABLE]
        assert self._watcher is not None
        assert self._watcher.stdin is not None
        self._watcher.stdin.close()
        try:
            self._watcher.wait(_PATIENCE)
        except subprocess.TimeoutExpired:
            self._watcher.kill()


def marked(token: str) -> list[int]:
    """Ids of the processes of this user that carry `token`."""
    mark = f"{VARIABLE}={token}".encode()
    found = []
    for entry in Path("/proc").iterdir():
        if not entry.name.isdigit() or int(entry.name) == os.getpid():
            continue
        try:
            if mark in (entry / "environ").read_bytes().split(b"\0"):
                found.append(int(entry.name))
        except OSError:
            continue  # It ended meanwhile, or belongs to another user.
    return found


def sweep(token: str, patience: float = _PATIENCE) -> int:
    """Kill all that carries `token`; returns how many there were. Bounded by `patience` s."""
    killed: set[int] = set()
    deadline = time.monotonic() + patience
    while (living := marked(token)) and time.monotonic() < deadline:
        for pid in living:
            try:
                os.kill(pid, signal.SIGKILL)
            except ProcessLookupError:
                continue
            killed.add(pid)
        time.sleep(0.02)
    return len(killed)


def main() -> None:
    """Wait for the controller's end of the pipe to close, then sweep."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    sys.stdin.buffer.read()
    sweep(sys.argv[1])


if __name__ == "__main__":
    main()
