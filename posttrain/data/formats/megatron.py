"""Megatron's indexed files of conversations tokenised elsewhere: PREFIX.bin and PREFIX.idx.

A sequence is the tokens of one conversation followed by as many mask values, 1 where a token is a
target (facts.md 3.3). A row is `{"tokens": [...], "mask": [...]}`. Sequences that are tokens alone
are the format `megatron_tokens`: nothing in a file tells the two apart.
"""

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from posttrain.data import indexed
from posttrain.data.checks.rows import Fault, Place, Row

Flags = NDArray[np.bool_]


def files(path: Path) -> list[Path]:
    """Both files, whichever of them `path` names; ValueError if it names neither."""
    if path.suffix not in (".bin", ".idx"):
        raise ValueError(f"{path}: name the .bin or the .idx of Megatron's two files")
    return [path.with_suffix(".bin"), path.with_suffix(".idx")]


def read(path: Path, dataset: str, name: str) -> Iterator[Row | Fault]:
    """The conversations; two files that do not fit together are one Fault."""
    return sequences(path, dataset, name, _masked)


def sequences(
    path: Path, dataset: str, name: str, row: Callable[[NDArray[Any], Place], Row | Fault]
) -> Iterator[Row | Fault]:
    """What `row` makes of each sequence of whole numbers."""
    try:
        opened = indexed.read(path.with_suffix(""))
    except (ValueError, OSError) as broken:
        yield Fault(Place(dataset, name, 1), "", f"cannot be read: {broken}")
        return
    for number, sequence in enumerate(opened, 1):
        place = Place(dataset, name, number)
        if sequence.dtype.kind in "iu":
            yield row(sequence, place)
        else:
            told = f"wrong dtype: {sequence.dtype} where whole numbers belong"
            yield Fault(place, "tokens", told)


def fault(field: str, values: NDArray[Any], wrong: Flags, place: Place) -> Fault | None:
    """The first of `values` that is wrong, if one is."""
    if not wrong.any():
        return None
    at = int(np.flatnonzero(wrong)[0])
    wanted = "0 or 1" if field == "mask" else "a token id"
    return Fault(place, f"{field}[{at}]", f"must be {wanted}, is {values[at]}")


def _masked(sequence: NDArray[Any], place: Place) -> Row | Fault:
    count, odd = divmod(len(sequence), 2)
    if odd or not count:
        told = f"its sequence has {len(sequence)} values, not as many mask values as tokens"
        return Fault(place, "mask", told)
    tokens, mask = sequence[:count], sequence[count:]
    broken = fault("tokens", tokens, tokens < 0, place)
    if broken or (broken := fault("mask", mask, (mask != 0) & (mask != 1), place)):
        return broken
    return Row(place, {"tokens": tokens.tolist(), "mask": mask.tolist()})
