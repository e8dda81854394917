"""The services most tests share; tests leave them ready."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.rewards.faulty import FLAG
from tests.rewards.service import FAULTY, Service, prefer, serving


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
        prefer(running.process.pid)  # Else a check that spins takes more tries; see test_faults.py.
        yield running
