"""The page on releases says what is so, and its commands do what it says."""

import re
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
import uvicorn

from posttrain.release.suite import CHECKS, GROUPS
from tests.page import DOCS, follow
from tests.release.fake import Fake
from tests.release.fake_app import app
from tests.waiting import eventually

PAGE = (DOCS / "release.md").read_text()


@contextmanager
def fake(port: int) -> Iterator[None]:
    served = Fake()
    served.model = "talk/base@1"
    server = uvicorn.Server(uvicorn.Config(app(served), port=port, log_level="error"))
    thread = threading.Thread(target=server.run, daemon=True)
    thread.start()
    assert eventually(lambda: server.started)
    yield
    server.should_exit = True
    thread.join(10)


@pytest.mark.timeout(120)
def test_its_commands_do_what_it_says(tmp_path: Path) -> None:
    follow(PAGE, tmp_path, {"8000": fake})


def test_it_names_every_group_and_how_many_checks_there_are() -> None:
    rows = re.findall(r"^\| `([a-z_]+)` \|", PAGE, re.MULTILINE)
    assert [row for row in rows if row in GROUPS] == list(GROUPS)
    assert f"{len(CHECKS)} checks" in PAGE
