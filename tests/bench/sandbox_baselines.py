"""What the sandbox is compared with: a fresh process for each test, and a fresh bubblewrap.

The first is how SandboxFusion runs a test (sandbox/runners/base.py of bytedance/SandboxFusion): a
file, three pipes, and a shell that starts the interpreter. That is the tier's, in a virtual
environment of its own, so that nothing a machine has it do at each start is counted. Each way is
run from a small process, which knows what all below it have used once they have ended.
"""

import argparse
import ctypes
import json
import os
import resource
import shlex
import subprocess
import sys
import sysconfig
import venv
from pathlib import Path

from sandbox.tiers.bubblewrap import find_bubblewrap
from sandbox.tiers.interpreter import own_interpreter
from sandbox.tiers.namespaces import ENVIRONMENT
from tests.bench.sandbox_programs import OUTPUTS, PROGRAMS

_PR_SET_CHILD_SUBREAPER = 36
_LONGEST = 240


def cost(way: str, name: str, runs: int, folder: Path) -> float:
    """CPU ms of one of several runs of a program, by "process" or "bubblewrap"."""
    command = [sys.executable, "-m", "tests.bench.sandbox_baselines", way, name, str(runs)]
    done = subprocess.run(
        [*command, str(folder)], stdout=subprocess.PIPE, timeout=_LONGEST, check=True
    )
    return float(json.loads(done.stdout))


def _python(folder: Path) -> Path:
    """A bare virtual environment's."""
    environment = folder / "environment"
    if not environment.exists():
        venv.create(environment)
    return environment / "bin/python"


def _bubblewrap(folder: Path) -> list[str]:
    shown = [path for path in ("/bin", "/lib", "/lib64", "/usr") if os.path.exists(path)]
    trees = [*shown, *(str(tree) for tree in own_interpreter().trees), str(folder)]
    return [
        str(find_bubblewrap().path), "--unshare-all", "--die-with-parent",
        "--dev", "/dev", "--proc", "/proc", "--tmpfs", "/tmp",
        *(word for tree in trees for word in ("--ro-bind", tree, tree)),
    ]  # fmt: skip


def _run(command: list[str], name: str, folder: Path) -> None:
    (folder / "main.py").write_text(PROGRAMS[name])
    packages = sysconfig.get_path("purelib", vars={"base": sys.base_prefix})
    done = subprocess.run(
        command, cwd=folder, env={"PYTHONPATH": packages, **ENVIRONMENT},
        input=b"", capture_output=True, start_new_session=True, check=True,
    )  # fmt: skip
    assert done.stdout.decode() == OUTPUTS[name]
    _reap()


def _reap() -> None:
    """Wait for what bubblewrap leaves to others to wait for, else its time would be missed."""
    while True:
        try:
            os.waitpid(-1, 0)
        except ChildProcessError:
            return


def _used() -> float:
    kinds = (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)
    return sum(used.ru_utime + used.ru_stime for used in map(resource.getrusage, kinds))


def main() -> None:
    """Print the CPU ms of a run as JSON."""
    parser = argparse.ArgumentParser()
    parser.add_argument("way", choices=["process", "bubblewrap"])
    parser.add_argument("name", choices=list(PROGRAMS))
    parser.add_argument("runs", type=int)
    parser.add_argument("folder", type=Path)
    options = parser.parse_args()
    ctypes.CDLL(None).prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
    python = str(_python(options.folder))
    command = ["/bin/bash", "-c", f"{shlex.quote(python)} main.py"]
    if options.way == "bubblewrap":
        command = [*_bubblewrap(options.folder), python, "main.py"]
    _run(command, options.name, options.folder)
    before = _used()
    for _ in range(options.runs):
        _run(command, options.name, options.folder)
    print(json.dumps(1000 * (_used() - before) / options.runs))


if __name__ == "__main__":
    main()
