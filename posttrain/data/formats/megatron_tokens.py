"""Megatron's indexed files of token sequences without masks: PREFIX.bin and PREFIX.idx.

A sequence is the tokens of one document; which are targets, their ids tell. A row is
`{"tokens": [...]}`.
"""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from numpy.typing import NDArray

from posttrain.data.checks.rows import Fault, Place, Row
from posttrain.data.formats import megatron
from posttrain.data.formats.megatron import files as files


def read(path: Path, dataset: str, name: str) -> Iterator[Row | Fault]:
    """The documents; two files that do not fit together are one Fault."""
    return megatron.sequences(path, dataset, name, _row)


def _row(sequence: NDArray[Any], place: Place) -> Row | Fault:
    if not len(sequence):
        return Fault(place, "tokens", "its sequence is empty")
    broken = megatron.fault("tokens", sequence, sequence < 0, place)
    return broken or Row(place, {"tokens": sequence.tolist()})
