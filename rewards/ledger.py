"""The ledger: every verdict, appended to checksummed segments that outlive the process.

A record is in the log once `append` has returned, and no later `kill -9` takes it away again; only
a lost machine may, unless `fsync` is set. A full segment is sealed: written as parquet under
another name, read back, compared, renamed, and only then is its log removed. One process at a time
writes to a folder; anybody may read it meanwhile.
"""

import fcntl
import hashlib
import json
import os
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from pydantic import Field, JsonValue
from pydantic_core import to_json

from rewards import segments
from rewards.schema import Composite, Entry, Item, Verdict, Wire

SEGMENT = 32 * 2**20
"""Bytes of log after which a segment is sealed."""

COLUMNS = {
    "time": "double", "id": "string", "verifier": "string", "status": "string", "score": "double",
    "reason": "string", "feedback": "string", "latency_ms": "double", "attempt": "int32",
    "input_digest": "string", "source": "string", "run": "string",
}  # fmt: skip
"""What a sealed segment can be queried by, besides the `record`: Arrow types by name."""

_CANONICAL = json.JSONEncoder(sort_keys=True, ensure_ascii=False, separators=(",", ":"))


class Record(Wire):
    """One verdict and all that led to it.

    `time` is in seconds since 1970, `input_digest` that of the item without its id, `digests` the
    version digest of each verifier that had a say, `latency_ms` what the caller waited for.
    """

    time: float
    item: Entry
    input_digest: str
    digests: dict[str, str] = Field(default_factory=dict)
    verdict: Verdict
    latency_ms: float
    attempt: int
    source: str | None = None
    run: str | None = None


def input_digest(item: Entry) -> str:
    """SHA-256 of what a verifier gets to see: equal for equal input, whatever the item's id."""
    seen = hashlib.sha256(to_json([item.response, item.answers]))
    checks = [item] if isinstance(item, Item) else item.checks
    asked: list[JsonValue] = [[each.verifier, each.gold, each.parameters] for each in checks]
    if isinstance(item, Composite):
        asked += [item.combine, *(check.weight for check in item.checks)]
    seen.update(_CANONICAL.encode(asked).encode())
    return seen.hexdigest()


def verifiers(item: Entry) -> Sequence[str]:
    """The verifiers that have a say on `item`."""
    if isinstance(item, Composite):
        return [check.verifier for check in item.checks]
    return [item.verifier]


class Ledger:
    """The writing end of the ledger in `folder`; close it, or use it as `with`.

    On opening, a record that a killed process left unfinished is cut off, and what it left unsealed
    is sealed. ValueError if another process has it open, or if a segment is damaged. With `fsync`
    each append waits for the disk, milliseconds instead of microseconds.
    """

    def __init__(self, folder: Path, *, fsync: bool = False, segment: int = SEGMENT) -> None:
        self._folder = folder
        self._fsync = fsync
        self._segment = segment
        self._guard = threading.Lock()
        self._sealer = ThreadPoolExecutor(1, "ledger")
        self._sealing: list[Future[None]] = []
        self._log: segments.Log | None = None
        try:
            folder.mkdir(parents=True, exist_ok=True)
        except (FileExistsError, NotADirectoryError):
            raise ValueError(f"{folder} is no folder; a ledger needs one") from None
        self._lock = _locked(folder)
        try:
            self._recover()
        except BaseException:
            os.close(self._lock)
            raise

    def _recover(self) -> None:
        for path in self._folder.glob("*.tmp"):
            path.unlink()
        numbers = segments.numbers(self._folder)
        self._next = max(numbers, default=0) + 1
        for number in numbers:
            log = segments.log_path(self._folder, number)
            if log.exists():
                segments.cut_torn_tail(log)
                self._seal(number)

    def append(
        self,
        items: Sequence[Entry],
        verdicts: Sequence[Verdict],
        *,
        digests: Mapping[str, str] | None = None,
        latency_ms: float | None = None,
        source: str | None = None,
        run: str | None = None,
    ) -> None:
        """Add one record for each item; durable, as the module says, on return.

        `digests` maps verifiers to version digests. Without a `latency_ms` that of the check
        counts. OSError where the disk is full or the log was removed: then none of the records is
        in the ledger.
        """
        known, now = digests or {}, time.time()
        frames = [
            segments.frame(_record(item, verdict, known, now, latency_ms, source, run))
            for item, verdict in zip(items, verdicts, strict=True)
        ]
        with self._guard:
            if self._log is None:
                self._log = segments.Log(segments.log_path(self._folder, self._next))
            self._log.write(b"".join(frames), fsync=self._fsync)
            if self._log.size >= self._segment:
                self._rotate()

    def check(self) -> None:
        """OSError if its files were removed under it: what was acknowledged is lost."""
        segments.require_same(self._lock, _lock_path(self._folder))
        with self._guard:
            if self._log is not None:
                self._log.check()

    def close(self) -> None:
        """Seal what there is and let the folder go; OSError if a segment could not be sealed.

        Nothing is lost then: its log stays, and the next opening tries again.
        """
        with self._guard:
            if self._log is not None:
                self._rotate()
        self._sealer.shutdown()
        os.close(self._lock)
        for sealing in self._sealing:
            sealing.result()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        fault: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def _rotate(self) -> None:
        assert self._log is not None
        self._log.close()
        self._log = None
        self._seal(self._next)
        self._next += 1

    def _seal(self, number: int) -> None:
        self._sealing = [each for each in self._sealing if not each.done() or each.exception()]
        self._sealing.append(
            self._sealer.submit(segments.seal, self._folder, number, COLUMNS, _row)
        )


def read(folder: Path) -> Iterator[Record]:
    """All records in the order of their appending; ValueError names a damaged place.

    What is sound before that place comes first. A record being written is not there yet.
    """
    for number in segments.numbers(folder):
        for payload in segments.payloads(folder, number):
            yield Record.model_validate_json(payload)


def _lock_path(folder: Path) -> Path:
    return folder / "lock"


def _locked(folder: Path) -> int:
    """A descriptor that holds the folder's lock, until it is closed or the process ends."""
    lock = os.open(_lock_path(folder), os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        os.close(lock)
        raise ValueError(f"{folder} is written by another process; give another folder") from None
    return lock


def _record(
    item: Entry,
    verdict: Verdict,
    digests: Mapping[str, str],
    now: float,
    latency_ms: float | None,
    source: str | None,
    run: str | None,
) -> bytes:
    assert verdict.id == item.id, f"verdict {verdict.id} for item {item.id}"
    record = {
        "time": now,
        "item": item,
        "input_digest": input_digest(item),
        "digests": {name: digests[name] for name in verifiers(item) if name in digests},
        "verdict": verdict,
        "latency_ms": verdict.elapsed_ms if latency_ms is None else latency_ms,
        "attempt": verdict.attempt,
        "source": source,
        "run": run,
    }
    return to_json(record)  # Half the time of a `Record`, which would be built only to be dumped.


def _row(payload: bytes) -> dict[str, Any]:
    """The values of `COLUMNS`."""
    record = Record.model_validate_json(payload)
    fields = record.verdict.model_dump() | record.model_dump(exclude={"item", "verdict"})
    return {name: fields[name] for name in COLUMNS}
