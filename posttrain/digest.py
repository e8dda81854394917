"""Digests by content: equal values have equal digests, whatever their order, host or time."""

import hashlib
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

_CHUNK = 1 << 20


def canonical(value: Any) -> str:
    """`value` as JSON with sorted keys, no spaces and no NaN: one text per value."""
    return json.dumps(
        value, sort_keys=True, separators=(",", ":"), ensure_ascii=False, allow_nan=False
    )


def of_value(value: Any) -> str:
    """sha256 (hex) of the canonical JSON of `value`."""
    return hashlib.sha256(canonical(value).encode()).hexdigest()


def of_file(path: Path) -> str:
    """sha256 (hex) of a file's bytes, read in 1 MiB pieces."""
    total = hashlib.sha256()
    with path.open("rb") as stream:
        while piece := stream.read(_CHUNK):
            total.update(piece)
    return total.hexdigest()


def of_files(digests: Mapping[str, str]) -> str:
    """One digest for a folder: of its {relative path: sha256} table."""
    return of_value(dict(digests))
