"""A Hugging Face dataset saved to disk: a folder whose `state.json` lists its Arrow files.

An Arrow stream that was cut between two batches would read like a shorter one: what tells a whole
file is the mark at its end.
"""

import json
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

from posttrain.data.checks.rows import Fault, Place, Row
from posttrain.data.formats.columns import rows

_END = b"\xff\xff\xff\xff\x00\x00\x00\x00"


def files(path: Path) -> list[Path]:
    """The Arrow files, in the dataset's order; ValueError if the folder has others or lacks one."""
    if (path / "dataset_dict.json").is_file():
        splits = sorted(each.name for each in path.iterdir() if each.is_dir())
        raise ValueError(f"{path} holds several splits; name one of {', '.join(splits)} in it")
    listed = _listed(path / "state.json")
    there = {each.name for each in path.glob("*.arrow")}
    for told, wrong in (("lacks", set(listed) - there), ("also has", there - set(listed))):
        if wrong:
            raise ValueError(f"{path}: state.json lists its files, and the folder {told} "
                             f"{', '.join(sorted(wrong))}")  # fmt: skip
    return [path / name for name in listed]


def _listed(path: Path) -> list[str]:
    try:
        return [str(each["filename"]) for each in json.loads(path.read_bytes())["_data_files"]]
    except FileNotFoundError:
        raise ValueError(f"{path.parent} has no state.json, so it is no saved dataset") from None
    except (ValueError, KeyError, TypeError) as broken:
        raise ValueError(f"{path} does not list the dataset's files: {broken!r}") from None


def read(path: Path, dataset: str, name: str) -> Iterator[Row | Fault]:
    """The rows of all files."""
    for file in files(path):
        within = f"{name}/{file.name}"
        count, last = 0, None
        for count, last in enumerate(rows(partial(_batches, file), dataset, within), 1):  # noqa: B007
            yield last
        if not isinstance(last, Fault) and not _whole(file):
            place = Place(dataset, within, count + 1)
            yield Fault(place, "", "the file was cut: its stream has no end")


def _whole(file: Path) -> bool:
    with file.open("rb") as stream:
        stream.seek(max(0, file.stat().st_size - len(_END)))
        return stream.read() == _END


def _batches(path: Path) -> Iterator[Any]:
    import pyarrow.ipc

    with pyarrow.memory_map(str(path)) as file, pyarrow.ipc.open_stream(file) as stream:
        yield from stream
