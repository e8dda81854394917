"""What ranks do in tests that need no training: nothing heavy is imported here."""

import os
import signal
import time
from collections.abc import Callable
from pathlib import Path

_DEADLINE = 200.0


def told(
    what: str, *, rank: int, ranks: int, rendezvous: Path, report: Callable[..., None]
) -> tuple[str, int]:
    """Report this process; rank 1 then ends as `what` says while rank 0 would go on for long."""
    up = rendezvous.with_name("up")
    if rank == 0:
        report(os.getpid(), ranks)
        up.touch()
        time.sleep(0 if what == "well" else _DEADLINE)
    else:
        _wait_for(up)
        if what == "wrong":
            raise ValueError("row 3 is empty")
        if what == "killed":
            os.kill(os.getpid(), signal.SIGKILL)
    return what, rank


def _wait_for(path: Path) -> None:
    deadline = time.monotonic() + _DEADLINE
    while not path.exists():
        assert time.monotonic() < deadline
        time.sleep(0.01)
