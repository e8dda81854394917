"""The sample ledger: one JSON line an event, appended by the run's one trainer process.

A line is in the file once `note` has returned, and no later `kill -9` takes it away; steps,
checkpoints and what is decided about a source are on the disk as well. What a killed writer left
unfinished is cut off when the ledger is opened again; an unsound line with a sound one behind it
is damage, and refused.
"""

import gzip
import json
import os
import threading
import time
import zlib
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

from posttrain.rl.account import Account, Event, account

NAME = "ledger.jsonl"
"""In a stage's work folder; in its artifact compressed, as `ARCHIVED`."""

ARCHIVED = f"{NAME}.gz"

_CLOSED = -1

_DURABLE = ("begun", "resumed", "trained", "checkpoint", "source_dropped")


class Ledger:
    """The writing end, safe from several threads; `account` is the state of what counts.

    `plan` is told once, at the ledger's beginning; `step` is that of the checkpoint resumed from,
    0 for none. ValueError if the file is damaged or knows no such checkpoint.
    """

    def __init__(self, path: Path, step: int, plan: Mapping[str, Any]) -> None:
        self._guard = threading.Lock()
        self._next = _cut(path)
        self._file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o644)
        self.account = Account()
        if self._next:
            resumed = self._numbered("resumed", {"step": step})
            self.account = account(Events(path), resumed)
            self._write(resumed)
        else:
            self.note("begun", **plan)

    def note(self, event: str, **fields: Any) -> None:
        """Append one event; ValueError if it contradicts those before it, and nothing is written.

        The same once the ledger is closed: rollouts may outlive the training. OSError when the disk
        is full; the file is then as it was.
        """
        with self._guard:
            if self._file == _CLOSED:
                raise ValueError(f"the ledger is closed, and now {event}")
            line = self._numbered(event, fields)
            self.account.apply(line)
            self._write(line)

    def close(self) -> None:
        """On to the disk, and close."""
        with self._guard:
            os.fsync(self._file)
            os.close(self._file)
            self._file = _CLOSED

    def _numbered(self, event: str, fields: Mapping[str, Any]) -> dict[str, Any]:
        return {"n": self._next, "time": round(time.time(), 3), "event": event, **fields}

    def _write(self, line: Event) -> None:
        size = os.fstat(self._file).st_size
        rest = memoryview(_encoded(line))
        try:
            while rest:
                rest = rest[os.write(self._file, rest) :]
        except OSError:
            os.ftruncate(self._file, size)
            raise
        self._next += 1
        if line["event"] in _DURABLE:
            os.fsync(self._file)


class Events:
    """The events in a ledger, compressed or not, also while it is being written.

    They are read anew whenever they are gone through, up to what a killed writer left unfinished.
    ValueError, after those before it, at a damaged place.
    """

    def __init__(self, path: Path) -> None:
        self._path = path

    def __iter__(self) -> Iterator[Event]:
        for event, _ in _lines(self._path):
            yield event


def archive(path: Path, target: Path) -> None:
    """Write the ledger compressed; equal ledgers give equal files."""
    target.write_bytes(gzip.compress(path.read_bytes(), mtime=0))


def _encoded(line: Event) -> bytes:
    return json.dumps(line, separators=(",", ":")).encode() + b"\n"


def _cut(path: Path) -> int:
    """Cut off what a killed writer left unfinished; returns the number of events."""
    if not path.exists():
        return 0
    count = sound = 0
    for _, size in _lines(path):
        count, sound = count + 1, sound + size
    if sound < path.stat().st_size:
        os.truncate(path, sound)
    return count


def _lines(path: Path) -> Iterator[tuple[Event, int]]:
    """Each event, and how many bytes its line has."""
    with gzip.open(path) if path.suffix == ".gz" else path.open("rb") as stream:
        for number, line in enumerate(_read(stream, path)):
            event = _sound(line, number)
            if event is None:
                if any(_sound(later) is not None for later in stream):
                    raise ValueError(
                        f"{path}, line {number + 1} is damaged with sound lines behind it; bring "
                        "the file back from a copy, or remove the stage's work folder to train anew"
                    )
                return
            yield event, len(line)


def _read(stream: Iterable[bytes], path: Path) -> Iterator[bytes]:
    """The lines of a stream; ValueError if what was compressed is not whole."""
    try:
        yield from stream
    except (EOFError, gzip.BadGzipFile, zlib.error) as fault:
        raise ValueError(f"{path} is damaged: {fault}; bring it back from a copy") from None


def _sound(line: bytes, number: int | None = None) -> Event | None:
    """The event of a whole line, that of `number` if given; None if it is none."""
    if not line.endswith(b"\n"):
        return None
    try:
        event = json.loads(line)
    except ValueError:
        return None
    whole = isinstance(event, dict) and {"n", "time", "event"} <= event.keys()
    return event if whole and number in (None, event["n"]) else None
