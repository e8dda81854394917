"""The service most tests share."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.sandbox.service import Service, serving


@pytest.fixture(scope="session")
def sandbox(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Service]:
    """A service as users start it, with two slots."""
    with serving(tmp_path_factory.mktemp("sandbox"), "--slots", "2") as running:
        yield running


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A folder for a service of the test's own."""
    return tmp_path
