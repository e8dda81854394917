"""Data are streamed: what is held at once does not grow with how much there is."""

import json
import tracemalloc
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pyarrow
import pyarrow.parquet
import pytest

from posttrain.data import manifest
from posttrain.data.sources import Files, sound
from posttrain.data.tools import Declared, declare
from tests.data.checks.samples import dialogue

ROWS, SIZE = 3000, 3000
"""Rows, and characters of each: nine million in all."""

MOST = 2_500_000
"""Bytes that may be held at once."""


def talk() -> Iterator[dict[str, Any]]:
    for number in range(ROWS):
        yield dialogue("a" * SIZE, str(number))


def written(folder: Path, name: str) -> str:
    path = folder / f"talk.{name}"
    if name == "jsonl":
        with path.open("w") as lines:
            lines.writelines(json.dumps(row) + "\n" for row in talk())
    else:
        whole = pyarrow.Table.from_pylist([{"messages": row["messages"]} for row in talk()])
        pyarrow.parquet.write_table(whole, path, row_group_size=100)
    return path.name


def peak(work: Callable[[], object]) -> int:
    tracemalloc.start()
    try:
        work()
        return tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


@pytest.mark.parametrize("name", ["jsonl", "parquet"])
def test_files_become_an_artifact_row_by_row(tmp_path: Path, name: str) -> None:
    files = Files("talk", tmp_path, [written(tmp_path, name)])
    output = tmp_path / "output"
    output.mkdir()
    held = peak(lambda: manifest.write(output, {"train": sound(files.rows())}))
    assert (output / "train.jsonl").stat().st_size > 2 * MOST
    assert held < MOST


def test_a_transform_reads_and_writes_row_by_row(tmp_path: Path) -> None:
    for name in ("talk", "tools", "output"):
        (tmp_path / name).mkdir()
    tool = {"name": "f", "description": "d", "parameters": {}}
    manifest.write(tmp_path / "talk", {"train": talk()})
    manifest.write(tmp_path / "tools", {"train": [{**dialogue("a", "b"), "tools": [tool]}]})
    asked = Declared.model_validate({"from": "talk", "pool": ["tools"], "share": "50%"})
    folders = {f"data.{name}": tmp_path / name for name in ("talk", "tools")}

    def work() -> None:
        splits, _ = declare(1, asked, folders)
        manifest.write(tmp_path / "output", splits)

    assert peak(work) < MOST
