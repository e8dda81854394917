"""JSON lines: a file with one object a line."""

from collections.abc import Iterator
from pathlib import Path

from posttrain.data.checks.rows import Fault, Row, read_jsonl


def files(path: Path) -> list[Path]:
    """The file itself."""
    return [path]


def read(path: Path, dataset: str, name: str) -> Iterator[Row | Fault]:
    """The rows of the file."""
    return read_jsonl(path, dataset, name)
