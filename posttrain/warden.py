"""The warden: when a controller ends or dies, nothing it started stays behind.

Every process a run starts inherits `POSTTRAIN_RUN=<token>` in its environment, however often it
forks or changes its group. A small watcher holds a pipe whose other end only the controller has;
when that closes, by exit or by kill -9, the watcher kills all that carry the token. A controller
that promises to beat and falls silent is killed itself.
"""

import os
import select
import signal
import subprocess
import sys
import threading
import time
from contextlib import suppress
from pathlib import Path
from types import TracebackType

VARIABLE = "POSTTRAIN_RUN"
_PATIENCE = 10.0


class Warden:
    """Marks this process's future children with `token` and has them watched while it is open.

    With `silence` this process is to `beat`; after that many seconds without, it is killed too.
    """

    def __init__(self, token: str, silence: float | None = None) -> None:
        self._token = token
        self._silence = [] if silence is None else [str(os.getpid()), str(silence)]
        self._watcher: subprocess.Popen[bytes] | None = None
        self._ended = threading.Event()

    def __enter__(self) -> "Warden":
        self._watcher = subprocess.Popen(
            [sys.executable, "-S", "-m", "posttrain.warden", self._token, *self._silence],
            stdin=subprocess.PIPE, start_new_session=True,
            cwd=Path(__file__).resolve().parent.parent,
        )  # fmt: skip
        assert self._watcher.stdin is not None
        os.set_blocking(self._watcher.stdin.fileno(), False)
        os.environ[VARIABLE] = self._token
        return self

    def beat(self) -> None:
        """Tell the watcher that this process goes on."""
        assert self._watcher is not None
        assert self._watcher.stdin is not None
        with suppress(OSError):  # It is gone, or itself so slow that the pipe is full.
            os.write(self._watcher.stdin.fileno(), b".")

    def end_within(self, seconds: float, last_words: str, code: int) -> None:
        """Kill all that carries the token in `seconds`, unless the warden is closed by then.

        If even that does not let this process end, it says `last_words` and exits with `code` 10 s
        later.
        """
        thread = threading.Thread(target=self._end, args=(seconds, last_words, code), daemon=True)
        thread.start()

    def _end(self, seconds: float, last_words: str, code: int) -> None:
        if self._ended.wait(seconds):
            return
        sweep(self._token)
        if not self._ended.wait(_PATIENCE):
            sys.stderr.write(last_words)
            sys.stderr.flush()
            os._exit(code)

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
        self._ended.set()


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
    """Wait for the controller's end of the pipe to close, or for its silence; then sweep."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    token, *beating = sys.argv[1:]
    silence = float(beating[1]) if beating else None
    while select.select([0], [], [], silence)[0]:
        if not os.read(0, 1 << 16):
            break
    else:
        os.kill(int(beating[0]), signal.SIGKILL)  # It is there: its end of the pipe is open.
    sweep(token)


if __name__ == "__main__":
    main()
