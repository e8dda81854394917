"""Formats that rows are read from, all in one way.

A format is one module, and all have the same shape:

    def files(path: Path) -> list[Path]                             all files behind a named path
    def read(path: Path, dataset: str, name: str) -> Iterator[Row | Fault]

`name` stands for the path in messages. Always holds: rows come in the order of their files; one
that cannot be read is a `Fault` with its file, row and field; what ends early ends in a `Fault`.
Importing a format imports no library of its own: planning knows formats by their names alone.
"""

import importlib
from pathlib import Path, PurePath
from types import ModuleType
from typing import Literal, get_args

Format = Literal["jsonl", "parquet", "huggingface", "megatron", "megatron_tokens"]
FORMATS: tuple[Format, ...] = get_args(Format)

_SUFFIXES: dict[str, Format] = {
    ".jsonl": "jsonl", ".parquet": "parquet", ".bin": "megatron", ".idx": "megatron",
}  # fmt: skip


def module(name: Format) -> ModuleType:
    """The module of a format."""
    return importlib.import_module(f"{__name__}.{name}")


def told_by_suffix(path: PurePath) -> Format | None:
    """The format that a path's suffix tells, if it does."""
    return _SUFFIXES.get(path.suffix)


def named(path: Path) -> Format:
    """The format of a path that nobody stated one for; ValueError if nothing tells it."""
    found = told_by_suffix(path) or ("huggingface" if path.is_dir() else None)
    if found is None:
        raise ValueError(f"{path}: its suffix tells no format; state one of {', '.join(FORMATS)}")
    return found
