"""A small model folder, and servers that only say that they are well."""

import sys
from pathlib import Path

import pytest

from posttrain.serving import server
from posttrain.serving.manifest import read
from posttrain.serving.server import Served
from tests.equivalence.conftest import save

STUB = Path(__file__).with_name("stub.py")


@pytest.fixture(scope="session")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder as vLLM would serve it."""
    return save(tmp_path_factory.mktemp("served") / "model", tied=True)


@pytest.fixture
def checkpoint(model: Path) -> Served:
    """That folder under a name."""
    return Served("r/sft@1", model, read(model))


@pytest.fixture
def stubbed(monkeypatch: pytest.MonkeyPatch) -> None:
    """In place of vLLM, a process that answers /health: see `stub`."""

    def command(served: Served, host: str, port: int, backend: str) -> list[str]:
        return [str(STUB), host, str(port), served.name]

    monkeypatch.setattr(server, "command", command)
    assert sys.executable
