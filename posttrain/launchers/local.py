"""Jobs as processes of this machine, each leading its own process group."""

import json
import os
import signal
import subprocess
import time
from collections.abc import Sequence
from pathlib import Path

from posttrain.store import write_durably

_HANDLE = "job.json"


class LocalJob:
    """A process, known by its id and start time so that a reused id is never taken for it."""

    def __init__(self, pid: int, started: str, child: "subprocess.Popen[bytes] | None") -> None:
        self.pid = pid
        self._started = started
        self._child = child

    def running(self) -> bool:
        """Whether the process is alive (a zombie is not)."""
        if self._child is not None:
            return self._child.poll() is None
        return _start_time(self.pid) == self._started

    def cancel(self, grace: float = 10.0) -> None:
        """SIGTERM to the process group, SIGKILL after `grace` seconds."""
        for number, patience in ((signal.SIGTERM, grace), (signal.SIGKILL, 5.0)):
            if not self.running():
                return
            try:
                os.killpg(self.pid, number)
            except ProcessLookupError:
                return
            deadline = time.monotonic() + patience
            while self.running() and time.monotonic() < deadline:
                time.sleep(0.05)


class LocalLauncher:
    """Starts jobs on this machine; success is for the caller to read from the job's marker."""

    def submit(self, command: Sequence[str], folder: Path, log: Path) -> LocalJob:
        """Start `command` as leader of a new process group, output appended to `log`."""
        log.parent.mkdir(parents=True, exist_ok=True)
        with log.open("ab") as output:
            child = subprocess.Popen(
                list(command), stdin=subprocess.DEVNULL, stdout=output, stderr=output,
                start_new_session=True,
            )  # fmt: skip
        started = _start_time(child.pid)
        write_durably(folder / _HANDLE, json.dumps({"pid": child.pid, "started": started}))
        return LocalJob(child.pid, started, child)

    def adopt(self, folder: Path) -> LocalJob | None:
        """The job whose handle lies in `folder`, if its process still runs."""
        path = folder / _HANDLE
        if not path.is_file():
            return None
        try:
            handle = json.loads(path.read_bytes())
            job = LocalJob(int(handle["pid"]), str(handle["started"]), None)
        except (ValueError, KeyError, TypeError) as fault:
            raise ValueError(f"{path} is damaged; remove it once its job has ended") from fault
        return job if handle["started"] and job.running() else None


def _start_time(pid: int) -> str:
    """Clock ticks from boot to the start of `pid`; empty if it is gone or a zombie."""
    try:
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except (FileNotFoundError, ProcessLookupError):
        return ""
    return "" if fields[0] == "Z" else fields[19]
