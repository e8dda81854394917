"""The lease of a run: one controller at a time, and what a dead one left behind is cleared."""

import fcntl
import json
import os
import socket
import time
import uuid
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, NamedTuple, TextIO

from posttrain.store import Store
from posttrain.warden import sweep

_LOOKING = 1.0
"""Seconds after which whoever has the lock does not merely look."""


@contextmanager
def held(store: Store, run: str) -> Iterator[str]:
    """Hold the lease of `run`; yields a fresh token for the run's processes.

    ValueError if another controller holds it. The kernel drops the lock when its holder dies, so
    a killed controller never blocks the next one; its orphans and half-made drafts are removed.
    """
    path = _path(store, run)
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("a+") as stream:
        if not _locked(stream):
            raise ValueError(f"run {run} is already going on ({_holder(stream)}); wait or stop it")
        if earlier := _content(stream):
            sweep(str(earlier["token"]))
        store.clear(run)
        token = uuid.uuid4().hex
        stream.truncate(0)
        json.dump({"pid": os.getpid(), "host": socket.gethostname(), "token": token}, stream)
        stream.flush()
        os.fsync(stream.fileno())
        yield token


def _locked(stream: TextIO) -> bool:
    """Whether the lock is ours now; one that merely looks (`holder`) has it for an instant."""
    deadline = time.monotonic() + _LOOKING
    while True:
        try:
            fcntl.flock(stream, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            if time.monotonic() > deadline:
                return False
            time.sleep(_LOOKING / 20)
        else:
            return True


def renew(store: Store, run: str) -> None:
    """Show, by the time of the lease's file, that its holder goes on."""
    with suppress(FileNotFoundError):  # Someone removed it; the lock holds all the same.
        os.utime(_path(store, run))


class Holder(NamedTuple):
    """Who holds a lease, or held it last; `since` is when (s since the epoch) it was renewed."""

    pid: int
    host: str
    token: str
    held: bool
    since: float


def holder(store: Store, run: str) -> Holder | None:
    """The present or last holder of the lease of `run`; None if none is known."""
    path = _path(store, run)
    if not path.is_file():
        return None
    with path.open() as stream:
        content = _content(stream)
        try:
            fcntl.flock(stream, fcntl.LOCK_SH | fcntl.LOCK_NB)
            held = False
        except BlockingIOError:
            held = True
    if content is None:
        return None
    return Holder(
        int(content["pid"]), str(content["host"]), str(content["token"]), held, path.stat().st_mtime
    )


def _path(store: Store, run: str) -> Path:
    return store.root / "runs" / run / "lease.json"


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
