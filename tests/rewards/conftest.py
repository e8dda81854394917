"""The service most tests share: all verifiers, two workers, a short deadline."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.rewards.faulty import FLAG
from tests.rewards.service import FAULTY, Service, serving


@pytest.fixture(scope="session")
def canary_flag(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """While this file exists, the shared service's faulty verifier fails its canary."""
    return tmp_path_factory.mktemp("canary") / "flag"


@pytest.fixture(scope="session")
def service(tmp_path_factory: pytest.TempPathFactory, canary_flag: Path) -> Iterator[Service]:
    """A service of all verifiers; tests leave it ready."""
    options = ("--verifiers", f"answer,math,{FAULTY}", "--workers", "2", "--deadline", "1.5")
    folder = tmp_path_factory.mktemp("service")
    with serving(folder, *options, env={FLAG: str(canary_flag)}) as running:
        yield running
