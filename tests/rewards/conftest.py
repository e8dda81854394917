"""The services most tests share; tests leave them ready."""

import os
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest

from tests.rewards.faulty import FLAG
from tests.rewards.service import FAULTY, Service, descendants, serving


@pytest.fixture(scope="session")
def service(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Service]:
    """A service as users start it, with two workers."""
    folder = tmp_path_factory.mktemp("service")
    with serving(folder, "--verifiers", "answer,math", "--workers", "2") as running:
        yield running


@pytest.fixture(scope="session")
def canary_flag(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """While this file exists, the canary of the frail service fails."""
    return tmp_path_factory.mktemp("canary") / "flag"


@pytest.fixture(scope="session")
def frail(tmp_path_factory: pytest.TempPathFactory, canary_flag: Path) -> Iterator[Service]:
    """A service with a verifier that misbehaves on demand, and a deadline of a second."""
    options = ("--verifiers", f"answer,{FAULTY}", "--workers", "2", "--deadline", "1")
    folder = tmp_path_factory.mktemp("frail")
    with serving(folder, *options, env={FLAG: str(canary_flag)}) as running:
        for pid in (running.process.pid, *descendants(running.process.pid)):
            with suppress(PermissionError):  # Then it takes more tries; see test_faults.py.
                os.setpriority(os.PRIO_PROCESS, pid, -10)
        yield running
