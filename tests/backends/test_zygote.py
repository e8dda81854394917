import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from posttrain.backends.cpu.zygote import zygote


@pytest.fixture
def executable() -> Iterator[str]:
    with zygote(modules=("decimal",)) as command:
        yield command


def _script(folder: Path, text: str) -> Path:
    path = folder / "worker.py"
    path.write_text(text)
    return path


def _start(executable: str, script: Path, *arguments: str, **env: str) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [*executable.split(), str(script), *arguments],
        env={**os.environ, **env}, stdout=subprocess.PIPE, text=True,
    )  # fmt: skip


def _eventually(holds: Callable[[], bool]) -> bool:
    deadline = time.monotonic() + 20
    while not holds() and time.monotonic() < deadline:
        time.sleep(0.02)
    return holds()


def _gone(pid: int) -> bool:
    try:
        state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except FileNotFoundError:
        return True
    return state == "Z"


def test_a_worker_has_the_imports_arguments_and_environment(
    executable: str, tmp_path: Path
) -> None:
    text = (
        "import os, sys\n"
        "print('decimal' in sys.modules, sys.argv[1:], os.environ['MARK'], 'GONE' in os.environ,"
        " os.getpgid(0) == os.getpid(), __name__)"
    )
    output, _ = _start(executable, _script(tmp_path, text), "a b", MARK="here").communicate(
        timeout=30
    )
    assert output.strip() == "True ['a b'] here False True __main__"


WAIT = "import os, time\nprint(os.getpid(), flush=True)\ntime.sleep(60)"


def test_a_worker_ends_with_the_process_started_for_it(executable: str, tmp_path: Path) -> None:
    entered = _start(executable, _script(tmp_path, WAIT))
    assert entered.stdout is not None
    worker = int(entered.stdout.readline())
    entered.kill()
    entered.wait(timeout=10)
    assert _eventually(lambda: _gone(worker))


def test_the_process_started_for_it_ends_with_the_worker(executable: str, tmp_path: Path) -> None:
    entered = _start(executable, _script(tmp_path, WAIT))
    assert entered.stdout is not None
    os.kill(int(entered.stdout.readline()), signal.SIGKILL)
    assert entered.wait(timeout=10) is not None


def test_workers_end_with_the_zygote_and_it_with_its_starter(tmp_path: Path) -> None:
    text = (
        "import subprocess, time\n"
        "from posttrain.backends.cpu.zygote import zygote\n"
        "with zygote(modules=()) as command:\n"
        f"    subprocess.Popen([*command.split(), {str(_script(tmp_path, WAIT))!r}])\n"
        "    time.sleep(60)\n"
    )
    starter = subprocess.Popen([sys.executable, "-c", text], stdout=subprocess.PIPE, text=True)
    assert starter.stdout is not None
    worker = int(starter.stdout.readline())
    starter.kill()
    starter.wait(timeout=10)
    assert _eventually(lambda: _gone(worker))
