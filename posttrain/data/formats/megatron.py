"""Megatron's indexed files of conversations tokenised elsewhere: PREFIX.bin and PREFIX.idx.

A sequence is the tokens of one conversation followed by as many mask values, 1 where a token is a
target (facts.md 3.3). A row is `{"tokens": [...], "mask": [...]}`.
"""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from posttrain.data import indexed
from posttrain.data.checks.rows import Fault, Place, Row


def files(path: Path) -> list[Path]:
    """Both files, whichever of them `path` names; ValueError if it names neither."""
    if path.suffix not in (".bin", ".idx"):
        raise ValueError(f"{path}: name the .bin or the .idx of Megatron's two files")
    return [path.with_suffix(".bin"), path.with_suffix(".idx")]


def read(path: Path, dataset: str, name: str) -> Iterator[Row | Fault]:
    """The conversations; two files that do not fit together are one Fault."""
    try:
        opened = indexed.read(path.with_suffix(""))
    except (ValueError, OSError) as broken:
        yield Fault(Place(dataset, name, 1), "", f"cannot be read: {broken}")
        return
    for number, sequence in enumerate(opened, 1):
        yield _row(sequence, Place(dataset, name, number))


def _row(sequence: NDArray[Any], place: Place) -> Row | Fault:
    if sequence.dtype.kind not in "iu":
        return Fault(place, "tokens", f"wrong dtype: {sequence.dtype} where whole numbers belong")
    count, odd = divmod(len(sequence), 2)
    if odd or not count:
        told = f"its sequence has {len(sequence)} values, not as many mask values as tokens"
        return Fault(place, "mask", told)
    tokens, mask = sequence[:count], sequence[count:]
    for field, values, wrong in (
        ("tokens", tokens, tokens < 0),
        ("mask", mask, (mask != 0) & (mask != 1)),
    ):
        if wrong.any():
            at = int(np.flatnonzero(wrong)[0])
            wanted = "0 or 1" if field == "mask" else "a token id"
            return Fault(place, f"{field}[{at}]", f"must be {wanted}, is {values[at]}")
    return Row(place, {"tokens": tokens.tolist(), "mask": mask.tolist()})
