"""The artifact store: whatever is visible in it is whole, and never changes.

An artifact is a folder `artifacts/<run>/<stage>/<number>` with its files and a `record.json`. It
is prepared elsewhere, made durable, and renamed into place with its record inside, so a crash at
any instant leaves no artifact or all of it. Addresses are human (`run/stage@number`); identity is
the key in the record: the digest of the kind, config and input keys it was made from. Nothing is
found by a path pattern or by being newest; a lookup is by address or by key.
"""

import errno
import os
import re
import shutil
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from pydantic import BaseModel, ConfigDict, ValidationError

from posttrain import digest
from posttrain.durable import synced, synced_tree

_ADDRESS = re.compile(
    r"(?P<run>[a-z][a-z0-9_-]*)/(?P<stage>[a-z][a-z0-9_.-]*)@(?P<number>[1-9][0-9]*)"
)
_RECORD = "record.json"
_REMOVED = ".removed"


class Record(BaseModel):
    """What an artifact is and how it came to be; written once, with the artifact.

    `identity` holds the fields behind `key`, so that two keys can be compared field by field.
    """

    model_config = ConfigDict(extra="forbid", frozen=True)

    run: str
    stage: str
    number: int
    kind: str
    key: str
    identity: dict[str, Any]
    inputs: dict[str, str]
    files: dict[str, str]
    digest: str
    metrics: dict[str, float]
    facts: dict[str, Any]
    created: str

    @property
    def address(self) -> str:
        """`run/stage@number`, as people write it."""
        return f"{self.run}/{self.stage}@{self.number}"


@dataclass(frozen=True)
class Artifact:
    """A committed artifact: where it lies and its record."""

    path: Path
    record: Record

    @property
    def address(self) -> str:
        """`run/stage@number`, as people write it."""
        return self.record.address

    def verify(self) -> None:
        """ValueError if a file is missing, extra or differs from the recorded sha256."""
        found = _files(self.path)
        for name in sorted(found.keys() | self.record.files.keys()):
            if found.get(name) != self.record.files.get(name):
                raise ValueError(
                    f"artifact {self.address}: file {name} differs from its record "
                    f"(recorded sha256 {self.record.files.get(name)}, found {found.get(name)}); "
                    f"restore it or remove the folder {self.path} and run again"
                )


@dataclass(frozen=True)
class Draft:
    """A place to make an artifact in: `output` is committed whole, `work` survives crashes."""

    run: str
    stage: str
    key: str
    output: Path
    work: Path


class Store:
    """A store on a file system; several processes may use it at once.

    Reading changes nothing in it, not even an empty folder; ValueError if `root` is no folder.
    """

    def __init__(self, root: Path) -> None:
        self.root = root.absolute()
        first = next(path for path in (self.root, *self.root.parents) if os.path.lexists(path))
        if not first.is_dir():
            raise ValueError(f"{first} is no folder, so no store can be there; choose --store")

    def artifacts(self, run: str | None = None) -> Iterator[Artifact]:
        """Every committed artifact, or those of one run, by run, stage and number."""
        base = self.root / "artifacts"
        for folder in [base / run] if run else _folders(base):
            for stage in _folders(folder):
                for number in _numbers(stage):
                    yield read_artifact(stage / str(number))

    def records(self) -> Iterator[Record]:
        """The record of every artifact ever committed: those stay whose files were removed."""
        for run in _folders(self.root / "artifacts"):
            for stage in _folders(run):
                yield from (read_artifact(stage / str(n)).record for n in _numbers(stage))
                for number in _numbers(stage, _REMOVED):
                    kept = stage / f"{number}{_REMOVED}" / _RECORD
                    yield Record.model_validate_json(kept.read_bytes())

    def by_key(self) -> dict[str, Artifact]:
        """Key -> artifact; of two with one key (two runs that raced) the first in address order."""
        found: dict[str, Artifact] = {}
        for artifact in self.artifacts():
            found.setdefault(artifact.record.key, artifact)
        return found

    def find(self, key: str) -> Artifact | None:
        """The artifact with `key`, if it was committed."""
        return self.by_key().get(key)

    def get(self, address: str) -> Artifact:
        """The artifact at `run/stage@number`; ValueError if the address is wrong or unknown."""
        match = _ADDRESS.fullmatch(address)
        if not match:
            raise ValueError(f"{address!r} is no artifact address; write run/stage@number")
        path = self.root / "artifacts" / match["run"] / match["stage"] / match["number"]
        if not path.is_dir():
            near = [found.address for found in self.artifacts(match["run"])][:8]
            known = ", ".join(near) if near else f"none of run {match['run']}"
            raise ValueError(f"no artifact {address} in {self.root}; there are: {known}")
        return read_artifact(path)

    def draft(self, run: str, stage: str, key: str, work_key: str | None = None) -> Draft:
        """An empty `output`, and the stage's `work` folder as `work` gives it."""
        drafts = self.root / "drafts"
        drafts.mkdir(parents=True, exist_ok=True)
        output = Path(tempfile.mkdtemp(prefix=f"{run}.{stage}.", dir=drafts))
        return Draft(run, stage, key, output, self.work(run, stage, key, work_key))

    def work(self, run: str, stage: str, key: str, work_key: str | None = None) -> Path:
        """The folder for training checkpoints of this stage and key; another key's is cleared.

        Nodes with one `work_key`, the key itself unless given, may continue each other's work.
        """
        folder, shared = self.root / "work" / run / stage, work_key or key
        mark = folder / "work_key"
        if not (mark.is_file() and mark.read_text() == shared):
            shutil.rmtree(folder, ignore_errors=True)
            folder.mkdir(parents=True)
            write_durably(mark, shared)
        write_durably(folder / "key", key)
        return folder

    def commit(
        self,
        draft: Draft,
        *,
        kind: str,
        identity: Mapping[str, Any],
        inputs: Mapping[str, str],
        metrics: Mapping[str, float],
        facts: Mapping[str, Any],
    ) -> Artifact:
        """Make the draft durable and visible, and drop its `work`; the same key commits once."""
        if existing := self.find(draft.key):
            shutil.rmtree(draft.output)
            shutil.rmtree(draft.work, ignore_errors=True)
            return existing
        assert not (draft.output / _RECORD).exists(), f"a stage may not write {_RECORD}"
        files = _files(draft.output)
        record = Record(
            run=draft.run, stage=draft.stage, number=0, kind=kind, key=draft.key,
            identity=dict(identity), inputs=dict(inputs), files=files,
            digest=digest.of_files(files), metrics=dict(metrics), facts=dict(facts),
            created=datetime.now(UTC).isoformat(timespec="seconds"),
        )  # fmt: skip
        synced_tree(draft.output)
        artifact = self._publish(draft.output, record)
        shutil.rmtree(draft.work, ignore_errors=True)
        return artifact

    def _publish(self, output: Path, record: Record) -> Artifact:
        parent = self.root / "artifacts" / record.run / record.stage
        parent.mkdir(parents=True, exist_ok=True)
        number = max([*_numbers(parent), *_numbers(parent, _REMOVED)], default=0)
        while True:
            number += 1
            numbered = record.model_copy(update={"number": number})
            write_durably(output / _RECORD, numbered.model_dump_json(indent=1))
            # Renaming a folder onto a non-empty one fails, so a number is taken exactly once.
            try:
                os.rename(output, parent / str(number))
            except OSError as taken:
                if taken.errno not in (errno.ENOTEMPTY, errno.EEXIST):
                    raise
                continue
            for folder in (parent, *parent.parents[:3]):
                synced(folder)
            return Artifact(parent / str(number), numbered)

    def remove(self, artifact: Artifact) -> None:
        """Delete an artifact's files. Its record stays, and its address is never given again."""
        removed = artifact.path.with_name(f"{artifact.path.name}{_REMOVED}")
        with suppress(FileNotFoundError):  # Another process was faster.
            os.rename(artifact.path, removed)
            synced(removed.parent)
        _empty(removed)

    def sweep(self) -> None:
        """Finish removals that a crash cut short."""
        for run in _folders(self.root / "artifacts"):
            for stage in _folders(run):
                for number in _numbers(stage, _REMOVED):
                    _empty(stage / f"{number}{_REMOVED}")

    def clear(self, run: str) -> None:
        """Remove what a dead controller of `run` left: drafts, and work that was committed."""
        for folder in _folders(self.root / "drafts"):
            if folder.name.startswith(f"{run}."):
                shutil.rmtree(folder, ignore_errors=True)
        keys = self.by_key()
        for work in _folders(self.root / "work" / run):
            if (mark := work / "key").is_file() and mark.read_text() in keys:
                shutil.rmtree(work, ignore_errors=True)


def write_durably(path: Path, text: str) -> None:
    """Replace a file's content atomically: after a crash it holds the old or the new text."""
    handle, name = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
    try:
        with os.fdopen(handle, "w", encoding="utf-8") as stream:
            stream.write(text)
            stream.flush()
            os.fsync(stream.fileno())
        os.replace(name, path)
    except BaseException:
        with suppress(FileNotFoundError):
            os.unlink(name)
        raise
    synced(path.parent)


def read_artifact(folder: Path) -> Artifact:
    """The artifact in `folder`; ValueError if its record was damaged or moved after the commit."""
    try:
        artifact = Artifact(folder, Record.model_validate_json((folder / _RECORD).read_bytes()))
    except (OSError, ValidationError) as broken:
        raise ValueError(
            f"the record of artifact {folder} is damaged; it was changed after its commit: "
            "restore it or remove the folder"
        ) from broken
    if artifact.address != f"{folder.parent.parent.name}/{folder.parent.name}@{folder.name}":
        raise ValueError(
            f"the folder {folder} holds artifact {artifact.address}; move it back or remove it"
        )
    return artifact


def _folders(path: Path) -> list[Path]:
    return sorted(entry for entry in path.iterdir() if entry.is_dir()) if path.is_dir() else []


def _empty(folder: Path) -> None:
    """Delete all in `folder` but its record."""
    for entry in folder.iterdir():
        if entry.is_dir():
            shutil.rmtree(entry)
        elif entry.name != _RECORD:
            entry.unlink()


def _numbers(stage: Path, suffix: str = "") -> list[int]:
    names = [f.name.removesuffix(suffix) for f in _folders(stage) if f.name.endswith(suffix)]
    return sorted(int(name) for name in names if name.isdecimal() and name.isascii())


def _files(folder: Path) -> dict[str, str]:
    return {
        str(path.relative_to(folder)): digest.of_file(path)
        for path in sorted(folder.rglob("*"))
        if path.is_file() and path != folder / _RECORD
    }
