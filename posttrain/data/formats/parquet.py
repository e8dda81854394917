"""Parquet: a file of column chunks."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from posttrain.data.checks.rows import Fault, Row
from posttrain.data.formats.columns import rows

_BATCH = 512


def files(path: Path) -> list[Path]:
    """The file itself."""
    return [path]


def read(path: Path, dataset: str, name: str) -> Iterator[Row | Fault]:
    """The rows of the file."""
    return rows(lambda: _batches(path), dataset, name)


def _batches(path: Path) -> Iterator[Any]:
    import pyarrow.parquet

    with pyarrow.parquet.ParquetFile(path) as file:
        yield from file.iter_batches(batch_size=_BATCH)
