"""Splits of a data artifact: their rows, streamed in order from however many shards they are in.

A split is named by the path `<artifact>/<split>.jsonl`, whether there is one file of that name or
shards beside it. Always holds: what is read are the shards of the manifest, all of them and no
other. A path without a manifest beside it is a file by itself.
"""

import hashlib
import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from posttrain.data import manifest
from posttrain.data.checks.rows import Fault, Row, read_jsonl
from posttrain.data.shards import Shard

_PIECE = 1 << 20


def files(path: Path) -> list[Path]:
    """The files of a split, in order; ValueError names one that is missing, extra or truncated."""
    folder, split = path.parent, path.stem
    if not (folder / manifest.FILE).is_file():
        return [path]
    splits = manifest.read(folder).splits
    if split not in splits:
        raise ValueError(f"{folder} has no split {split!r}; it has {', '.join(splits) or 'none'}")
    shards = splits[split].shards
    _check(folder, split, shards)
    return [folder / shard.file for shard in shards]


def lines(path: Path) -> Iterator[bytes]:
    """Each line of a split."""
    for file in files(path):
        with file.open("rb") as stream:
            yield from stream


def contents(path: Path) -> Iterator[dict[str, Any]]:
    """Each row of a split, as decoded from JSON."""
    for line in lines(path):
        yield json.loads(line)


def rows(path: Path, dataset: str) -> Iterator[Row | Fault]:
    """Each row of a split with its place: the shard, and its number there."""
    for file in files(path):
        yield from read_jsonl(file, dataset)


def digest_of(path: Path) -> str:
    """sha256 (hex) of the lines of a split: the same however they are cut into shards."""
    total = hashlib.sha256()
    for file in files(path):
        with file.open("rb") as stream:
            while piece := stream.read(_PIECE):
                total.update(piece)
    return total.hexdigest()


def _check(folder: Path, split: str, shards: tuple[Shard, ...]) -> None:
    """ValueError if the files of a split are not, name by name and byte for byte, as many."""
    named = re.compile(rf"{re.escape(split)}(-\d{{5,}})?\.jsonl")
    found = {
        file.name: file.stat().st_size for file in folder.iterdir() if named.fullmatch(file.name)
    }
    for shard in shards:
        if (size := found.pop(shard.file, None)) != shard.bytes:
            told = "is missing" if size is None else f"has {size:,} of {shard.bytes:,} bytes"
            raise ValueError(f"{folder}: shard {shard.file} {told}; {_REPAIR}")
    if found:
        raise ValueError(f"{folder}: shard {min(found)} is not in the manifest; {_REPAIR}")


_REPAIR = "restore the artifact, or remove its folder and run again"
