"""A fake endpoint on a free port, in this process; what it does wrong is set between checks."""

import threading
from collections.abc import Iterator
from pathlib import Path

import pytest
import uvicorn

from posttrain.release.endpoint import Endpoint
from posttrain.release.probe import Probe
from tests.equivalence.conftest import save
from tests.release.fake import MODEL, Fake
from tests.release.fake_app import app
from tests.waiting import eventually


class Served:
    """A fake that answers at `url`."""

    def __init__(self) -> None:
        self.fake = Fake()
        config = uvicorn.Config(app(self.fake), port=0, log_level="error", timeout_keep_alive=1)
        self.server = uvicorn.Server(config)
        self._thread = threading.Thread(target=self.server.run, daemon=True)
        self._thread.start()
        assert eventually(lambda: self.server.started)
        port = self.server.servers[0].sockets[0].getsockname()[1]
        self.url = f"http://127.0.0.1:{port}/v1"

    def probe(self, fault: str = "") -> Probe:
        """A new look at it, while it does `fault` wrong."""
        self.fake.fault = fault
        return Probe(Endpoint(self.url, MODEL, patience=30))

    def end(self) -> None:
        self.server.should_exit = True
        self._thread.join(10)


@pytest.fixture(scope="module")
def served() -> Iterator[Served]:
    """The fake endpoint of a module."""
    found = Served()
    yield found
    found.end()


@pytest.fixture(scope="session")
def own_head(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A model folder with the tokenizer that the fake has."""
    return save(tmp_path_factory.mktemp("own") / "model", tied=False)
