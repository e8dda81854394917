"""The lease of a run: one controller at a time, and what a dead one left behind is cleared."""

import fcntl
import json
import os
import socket
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, TextIO

from posttrain.store import Store
from posttrain.warden import sweep


@contextmanager
def held(store: Store, run: str) -> Iterator[str]:
    """Hold the lease of `run`; yields a fresh token for the run's processes.

    ValueError if another controller holds it. The kernel drops the lock when its holder dies, so
    a killed controller never blocks the next one; its orphans and half-made drafts are removed.
    """
    folder = store.root / "runs" / run
    folder.mkdir(parents=True, exist_ok=True)
    with (folder / "lease.json").open("a+") as stream:
        try:
            fcntl.flock(stream, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise ValueError(
                f"run {run} is already going on ({_holder(stream)}); wait or stop it"
            ) from None
        if earlier := _content(stream):
            sweep(str(earlier["token"]))
        store.clear(run)
        token = uuid.uuid4().hex
        stream.truncate(0)
        json.dump({"pid": os.getpid(), "host": socket.gethostname(), "token": token}, stream)
        stream.flush()
        os.fsync(stream.fileno())
        yield token


def _holder(stream: TextIO) -> str:
    holder = _content(stream)
    return f"process {holder['pid']} on {holder['host']}" if holder else "just starting"


def _content(stream: TextIO) -> dict[str, Any] | None:
    """What the last holder wrote; None if it was killed while writing, or the file is damaged."""
    stream.seek(0)
    try:
        content = json.loads(stream.read())
    except ValueError:
        return None
    whole = isinstance(content, dict) and {"pid", "host", "token"} <= content.keys()
    return content if whole and content["token"] else None
