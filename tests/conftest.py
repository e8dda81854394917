"""What tests of several packages share."""

import signal
from pathlib import Path

import pytest
from hypothesis import settings

from posttrain.store import Artifact, Store

settings.register_profile("untimed", deadline=None)
settings.load_profile("untimed")  # How long an example takes depends on the machine.

# A shell has its background jobs ignore Ctrl-C, and what they start inherits that.
signal.signal(signal.SIGINT, signal.default_int_handler)


@pytest.fixture
def store(tmp_path: Path) -> Store:
    """An empty store."""
    return Store(tmp_path / "store")


def commit(store: Store, run: str, stage: str, key: str, **files: str) -> Artifact:
    """Commit a small artifact with `files` (name -> text)."""
    draft = store.draft(run, stage, key)
    for name, text in files.items():
        (draft.output / name).write_text(text)
    return store.commit(draft, kind="data", identity={"k": key}, inputs={}, metrics={}, facts={})
