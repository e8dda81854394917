"""A run in a process of its own, killed dead after a step."""

import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import cloudpickle

from tests.waiting import eventually

Report = Callable[..., None]

_CODE = """
import pickle, sys, time
from pathlib import Path
def stop(step, steps, metrics):
    if step == int(sys.argv[3]):
        Path(sys.argv[2]).touch()
        time.sleep(120)
pickle.loads(Path(sys.argv[1]).read_bytes())(stop)
"""


def killed(folder: Path, step: int, run: Callable[[Report], Any]) -> None:
    """Have another process call `run` with a report, and kill -9 it when that tells of `step`.

    `run` may be a closure; the files of the frame lie in `folder`.
    """
    task, reached = folder / "task", folder / "reached"
    task.write_bytes(cloudpickle.dumps(run))
    command = [sys.executable, "-c", _CODE, str(task), str(reached), str(step)]
    child = subprocess.Popen(command, cwd=Path(__file__).parents[2])
    try:
        assert eventually(reached.exists, within=100), f"it did not come to step {step}"
        child.send_signal(signal.SIGKILL)
    finally:
        child.kill()
        child.wait(10)
