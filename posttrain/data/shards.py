"""Shards: the rows of a split as JSON lines, in files of bounded size.

Always holds: the rows, their order and the digest over all of them are the same whatever the bound;
a row lies whole in one shard. What fits one file is one, `<split>.jsonl`; else the shards are
`<split>-00000.jsonl` and so on.
"""

import hashlib
from pathlib import Path
from types import TracebackType
from typing import IO, Self

from pydantic import BaseModel, ConfigDict

from posttrain import digest

MOST_BYTES = 256 * 2**20
"""Bytes that a shard has at most, unless a single row has more."""


class Shard(BaseModel):
    """A file, by the name it is known under; `rows` where they were counted."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    file: str
    bytes: int
    sha256: str
    rows: int | None = None

    @classmethod
    def of(cls, path: Path, name: str) -> "Shard":
        """The file at `path`; OSError if it cannot be read."""
        return cls(file=name, bytes=path.stat().st_size, sha256=digest.of_file(path))


class Shards:
    """Writes the rows of a split; `sha256` is that of all lines, `written` the shards once closed.

    A context manager: leaving it closes the last shard.
    """

    def __init__(self, folder: Path, split: str, most: int | None = None) -> None:
        self._folder, self._split = folder, split
        self._most = MOST_BYTES if most is None else most
        self._all, self._open = hashlib.sha256(), _Open(self._path(0))
        self.written: tuple[Shard, ...] = ()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, fault: BaseException | None,
        trace: TracebackType | None,
    ) -> None:  # fmt: skip
        self.written += (self._open.close(),)
        if len(self.written) == 1:
            alone = self._path(0).replace(self._folder / f"{self._split}.jsonl")
            self.written = (self.written[0].model_copy(update={"file": alone.name}),)

    @property
    def sha256(self) -> str:
        """Of all lines up to here, whichever shards they are in."""
        return self._all.hexdigest()

    def add(self, line: bytes) -> None:
        """Write one line, its end included, to the shard with room for it."""
        if self._open.rows and self._open.bytes + len(line) > self._most:
            self.written += (self._open.close(),)
            self._open = _Open(self._path(len(self.written)))
        self._open.write(line)
        self._all.update(line)

    def _path(self, number: int) -> Path:
        return self._folder / f"{self._split}-{number:05}.jsonl"


class _Open:
    """The shard that is being written."""

    def __init__(self, path: Path) -> None:
        self._name, self._digest = path.name, hashlib.sha256()
        self._stream: IO[bytes] = path.open("wb")
        self.bytes = self.rows = 0

    def write(self, line: bytes) -> None:
        self._stream.write(line)
        self._digest.update(line)
        self.bytes += len(line)
        self.rows += 1

    def close(self) -> Shard:
        self._stream.close()
        return Shard(
            file=self._name, bytes=self.bytes, sha256=self._digest.hexdigest(), rows=self.rows
        )
