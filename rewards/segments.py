"""Segments of a ledger on disk: a log of framed records while it grows, parquet once it is full.

A frame is a mark that UTF-8 text cannot contain, the payload's length, a CRC-32 of length and
payload, and the payload. What follows the last sound frame of a log was being written when the
writer ended; an unsound frame with a sound one behind it is damage.
"""

import errno
import os
import re
import struct
import zlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

_MARK = b"\xffRL1"
_HEADER = struct.Struct("<4sII")
_LENGTH = struct.Struct("<I")
_NAME = re.compile(r"(\d{6,})\.(log|parquet)")
_ROWS = 1024
"""Rows read from parquet at a time."""


def numbers(folder: Path) -> list[int]:
    """The numbers of the segments in `folder`, in the order of their writing."""
    if not folder.is_dir():
        raise ValueError(f"{folder} is no ledger: there is no such folder")
    matches = (_NAME.fullmatch(path.name) for path in folder.iterdir())
    return sorted({int(match.group(1)) for match in matches if match})


def log_path(folder: Path, number: int) -> Path:
    """Where a segment's log is."""
    return folder / f"{number:06}.log"


def sealed_path(folder: Path, number: int) -> Path:
    """Where a sealed segment is."""
    return folder / f"{number:06}.parquet"


def frame(payload: bytes) -> bytes:
    """The frame of one record."""
    return _HEADER.pack(_MARK, len(payload), _check(payload)) + payload


def _check(payload: bytes) -> int:
    return zlib.crc32(payload, zlib.crc32(_LENGTH.pack(len(payload))))


def require_same(file: int, path: Path) -> None:
    """OSError if the open `file` is not the one at `path`."""
    if not os.path.samestat(os.fstat(file), path.stat()):
        raise FileNotFoundError(errno.ENOENT, "it was replaced by another file", str(path))


class Log:
    """A growing log. Its file begins and ends with whole frames whenever `write` has returned."""

    def __init__(self, path: Path) -> None:
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_APPEND | os.O_CLOEXEC
        self._path = path
        self._file = os.open(path, flags, 0o644)
        self.size = 0

    def check(self) -> None:
        """OSError if the file was removed or replaced, and with it what was written."""
        require_same(self._file, self._path)

    def write(self, frames: bytes, *, fsync: bool) -> None:
        """Append; after an OSError the file is as it was before."""
        self.check()
        rest = memoryview(frames)
        try:
            while rest:
                rest = rest[os.write(self._file, rest) :]
            if fsync:
                os.fsync(self._file)
        except OSError:
            os.ftruncate(self._file, self.size)
            raise
        self.size += len(frames)

    def close(self) -> None:
        """On to the disk, and close."""
        os.fsync(self._file)
        os.close(self._file)


def unframed(path: Path) -> tuple[list[bytes], int]:
    """The payloads of a log and the length of its sound part; ValueError if it is damaged."""
    found, at, damaged = _scanned(path.read_bytes())
    if damaged:
        raise ValueError(_told(path, at, len(found)))
    return found, at


def _scanned(data: bytes) -> tuple[list[bytes], int, bool]:
    found, at = [], 0
    while (payload := _payload(data, at)) is not None:
        found.append(payload)
        at += _HEADER.size + len(payload)
    return found, at, _sound_beyond(data, at)


def _payload(data: bytes, at: int) -> bytes | None:
    """The payload of the frame at `at`; None if there is no sound one."""
    start = at + _HEADER.size
    if start > len(data):
        return None
    mark, length, check = _HEADER.unpack_from(data, at)
    payload = data[start : start + length]
    sound = mark == _MARK and len(payload) == length and _check(payload) == check
    return payload if sound else None


def _sound_beyond(data: bytes, at: int) -> bool:
    while (at := data.find(_MARK, at + 1)) >= 0:
        if _payload(data, at) is not None:
            return True
    return False


def _told(path: Path, at: int, before: int) -> str:
    return (
        f"{path} is damaged at byte {at}, after {before} sound records, with more behind it; "
        "bring it back from a copy, or move it away to go on without it"
    )


def cut_torn_tail(path: Path) -> None:
    """Cut what a killed writer left unfinished; the bytes go to a file beside the log."""
    _, sound = unframed(path)
    data = path.read_bytes()
    if sound < len(data):
        path.with_suffix(".torn").write_bytes(data[sound:])
        os.truncate(path, sound)


def payloads(folder: Path, number: int) -> Iterator[bytes]:
    """The records of a segment as JSON; ValueError, after those before it, at a damaged place."""
    sealed, log = sealed_path(folder, number), log_path(folder, number)
    try:
        data = None if sealed.exists() else log.read_bytes()
    except FileNotFoundError:  # It has just been sealed.
        data = None
    if data is None:
        yield from _rows(sealed)
        return
    found, at, damaged = _scanned(data)
    yield from found
    if damaged:
        raise ValueError(_told(log, at, len(found)))


def _rows(path: Path) -> Iterator[bytes]:
    import pyarrow
    from pyarrow import parquet

    try:
        with parquet.ParquetFile(path, page_checksum_verification=True) as file:
            for batch in file.iter_batches(_ROWS, columns=["record"]):
                for row in batch.column("record"):
                    yield row.as_py().encode()
    except (OSError, pyarrow.ArrowException) as fault:
        raise ValueError(f"{path} is damaged: {fault}; bring it back from a copy") from None


def seal(
    folder: Path, number: int, columns: Mapping[str, str], row: Callable[[bytes], dict[str, Any]]
) -> None:
    """Turn a log into parquet; killed at any instant, the log or the parquet is whole.

    A record is a row: its JSON in the column `record`, and for queries what `row` makes of that,
    `columns` giving the Arrow type of each name. OSError if it does not read back as written.
    """
    log, sealed = log_path(folder, number), sealed_path(folder, number)
    found, _ = unframed(log)
    if found and not sealed.exists():
        draft = sealed.with_suffix(".tmp")
        rows = [{**row(payload), "record": payload.decode()} for payload in found]
        _write(rows, {**columns, "record": "string"}, draft)
        if list(_rows(draft)) != found:
            raise OSError(f"{draft} does not read back as written; {log} is kept")
        draft.replace(sealed)
        _sync(folder)
    log.unlink()


def _write(rows: Sequence[dict[str, Any]], columns: Mapping[str, str], path: Path) -> None:
    import pyarrow
    from pyarrow import parquet

    schema = pyarrow.schema([(name, pyarrow.type_for_alias(columns[name])) for name in columns])
    table = pyarrow.Table.from_pylist(rows, schema)
    parquet.write_table(table, path, compression="zstd", write_page_checksum=True)
    _sync(path)


def _sync(path: Path) -> None:
    """Wait until a file, or the names in a folder, are on the disk."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
