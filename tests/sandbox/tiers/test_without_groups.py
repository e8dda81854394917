"""Where there are no control groups, or no root: a laptop, a container."""

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from sandbox.tiers import cgroup
from sandbox.tiers.namespaces import Namespaces
from tests.sandbox.tiers.attacks import GREEDY
from tests.sandbox.tiers.stand import Stand

ROOT = Path(__file__).resolve().parents[3]
NOBODY = 65534


@pytest.fixture(scope="module")
def plain() -> Iterator[Stand]:
    """The tier on a machine that lets it make no control groups."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(cgroup, "find_parents", lambda: None)
        made = Stand(Namespaces())
        yield made
        made.close()


def test_what_is_not_enforced_by_the_kernel_is_said(plain: Stand) -> None:
    enforced = plain.tier.enforces()
    assert enforced["memory"].startswith("best effort")
    assert enforced["processes"] == "RLIMIT_NPROC"


@pytest.mark.parametrize(
    "name",
    [
        "heap", "shared mapping", "children", "a child's memory, the parent ending well",
        "fork bomb", "threads", "loop", "children's loops", "endless output",
    ],
)  # fmt: skip
def test_what_takes_too_much_is_still_ended(plain: Stand, name: str) -> None:
    attack = GREEDY[name]
    run = plain.python(attack.source, limits=attack.limits)
    assert run.ending in attack.endings, run
    assert plain.python("print('as before')").stdout == b"as before\n"


@pytest.mark.parametrize("name", ["memfd", "system V shared memory"])
def test_memory_that_could_not_be_seen_is_refused(plain: Stand, name: str) -> None:
    run = plain.python(GREEDY[name].source)
    assert run.ending in ("exited", "signalled"), run
    assert run.exit_code != 0


def test_files_stay_bounded(plain: Stand) -> None:
    attack = GREEDY["file systems"]
    run = plain.python(attack.source, limits=replace(attack.limits, files=2**22))
    assert (run.ending, run.exit_code) == ("exited", 1), run
    assert b"No space left" in run.stderr


def test_the_peak_is_unknown_rather_than_wrong(plain: Stand) -> None:
    assert plain.python("print()").peak is None


SELF_TEST = """
import asyncio, json, os
from sandbox.selftest import self_test
from sandbox.tiers.namespaces import Namespaces
report = asyncio.run(self_test(Namespaces()))
print(json.dumps([os.getuid(), len(report.checks), dict(report.failures)]))
"""


def test_an_ordinary_user_gets_a_tier_that_passes_the_self_test() -> None:
    python, path = _ordinary_python()
    done = subprocess.run(
        [python, "-c", SELF_TEST], cwd="/", env={"PYTHONPATH": path}, capture_output=True,
        text=True, user=NOBODY if os.geteuid() == 0 else None, timeout=120, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    user, checks, failures = json.loads(done.stdout)
    assert user != 0
    assert checks > 15
    assert failures == {}


def _ordinary_python() -> tuple[str, str]:
    """An interpreter of our version that any user can run, and where our packages are."""
    version = f"{sys.version_info[0]}.{sys.version_info[1]}"
    packages = next(path for path in sys.path if path.endswith("site-packages"))
    own = Path(sys.base_prefix, "bin", f"python{version}")
    user = {"user": NOBODY} if os.geteuid() == 0 else {}
    for python in filter(None, (str(own), shutil.which(f"python{version}", path="/usr/bin"))):
        command = [python, "-c", "import pydantic"]
        try:
            subprocess.run(command, env={"PYTHONPATH": packages}, check=True, cwd="/", **user)
        except (OSError, subprocess.SubprocessError):
            continue
        return python, f"{ROOT}:{packages}"
    pytest.skip(f"no python{version} with pydantic that an ordinary user can run")
