"""Megatron's indexed files: token sequences in PREFIX.bin, where each lies in PREFIX.idx.

The index, little-endian: nine bytes `MMIDIDX\\0\\0`, a u64 version (1), a u8 code of the token
type, u64 counts of sequences and of document bounds, then per sequence its length (i32) and its
offset in bytes (i64), then the bounds (i64): document `d` is the sequences from bound `d` to the
next.
What is read was checked: an index that does not fit its tokens is refused, with the place.
"""

import os
import struct
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import Any

import numpy as np
from numpy.typing import NDArray

_MAGIC = b"MMIDIDX\x00\x00"
_HEAD = struct.Struct("<9sQBQQ")
_VERSION = 1
_TYPES = MappingProxyType(
    {1: "u1", 2: "i1", 3: "<i2", 4: "<i4", 5: "<i8", 6: "<f8", 7: "<f4", 8: "<u2"}
)
_CODES = MappingProxyType({np.dtype(name): code for code, name in _TYPES.items()})


def token_type(vocabulary: int) -> np.dtype[Any]:
    """The type Megatron stores ids of a vocabulary in: 16 bits where they suffice."""
    return np.dtype("<u2" if vocabulary < 65500 else "<i4")


@dataclass(frozen=True)
class Indexed:
    """An indexed file, mapped into memory; `file[i]` is sequence `i` as a view."""

    tokens: NDArray[Any]
    lengths: NDArray[np.int32]
    starts: NDArray[np.int64]
    bounds: NDArray[np.int64]

    def __len__(self) -> int:
        return len(self.lengths)

    def __getitem__(self, number: int) -> NDArray[Any]:
        start = int(self.starts[number])
        return self.tokens[start : start + int(self.lengths[number])]

    def __iter__(self) -> Iterator[NDArray[Any]]:
        return (self[number] for number in range(len(self)))

    @property
    def documents(self) -> int:
        """How many documents there are."""
        return len(self.bounds) - 1

    def document(self, number: int) -> list[NDArray[Any]]:
        """The sequences of one document."""
        return [self[at] for at in range(self.bounds[number], self.bounds[number + 1])]


def read(prefix: Path) -> Indexed:
    """Open PREFIX.idx and PREFIX.bin; ValueError says which of them is wrong, and where."""
    path, binary = _paths(prefix)
    content = np.memmap(path, mode="r") if path.stat().st_size else np.empty(0, np.uint8)
    kind, sequences, bounds = _head(path, content[: _HEAD.size].tobytes())
    wanted = _HEAD.size + 12 * sequences + 8 * bounds
    if len(content) != wanted:
        raise ValueError(
            f"{path} has {len(content)} bytes, {sequences} sequences and {bounds} bounds take "
            f"{wanted}; the file was cut or is another format"
        )
    lengths, offsets, documents = _columns(content[_HEAD.size :], sequences, bounds)
    held = binary.stat().st_size
    _check(path, binary, kind, held, lengths, offsets)
    _check_bounds(path, documents, sequences)
    tokens = np.memmap(binary, dtype=kind, mode="r") if held else np.empty(0, kind)
    return Indexed(tokens, lengths, offsets // kind.itemsize, documents)


def write(prefix: Path, documents: Iterable[Sequence[Sequence[int]]], kind: np.dtype[Any]) -> None:
    """Write documents, each a list of sequences; ValueError for a token that `kind` cannot hold.

    The index is renamed into place last: where it is, all is.
    """
    path, binary = _paths(prefix)
    lengths: list[int] = []
    bounds = [0]
    with binary.open("wb") as stream:
        for document in documents:
            for sequence in document:
                stream.write(_packed(sequence, kind, len(bounds) - 1))
                lengths.append(len(sequence))
            bounds.append(len(lengths))
        _sync(stream)
    draft = path.with_name(f".{path.name}.draft")
    with draft.open("wb") as stream:
        stream.write(_HEAD.pack(_MAGIC, _VERSION, _CODES[kind], len(lengths), len(bounds)))
        stream.write(np.array(lengths, "<i4").tobytes())
        ends = np.cumsum(np.array(lengths, "<i8")) * kind.itemsize
        stream.write(np.concatenate([[0], ends])[: len(lengths)].astype("<i8").tobytes())
        stream.write(np.array(bounds, "<i8").tobytes())
        _sync(stream)
    draft.replace(path)


def _paths(prefix: Path) -> tuple[Path, Path]:
    return prefix.with_name(f"{prefix.name}.idx"), prefix.with_name(f"{prefix.name}.bin")


def _sync(stream: Any) -> None:
    stream.flush()
    os.fsync(stream.fileno())


def _packed(sequence: Sequence[int], kind: np.dtype[Any], document: int) -> bytes:
    wide = np.asarray(sequence, dtype=np.int64)
    narrow = wide.astype(kind)
    if not np.array_equal(narrow, wide):
        raise ValueError(
            f"document {document} has a token that {kind} cannot hold "
            f"({wide.min()} to {wide.max()}); choose the type by the vocabulary"
        )
    return narrow.tobytes()


def _head(path: Path, content: bytes) -> tuple[np.dtype[Any], int, int]:
    """Token type and the two counts."""
    if len(content) < _HEAD.size or not content.startswith(_MAGIC):
        raise ValueError(f"{path} is not a Megatron index: it does not begin with MMIDIDX")
    _, version, code, sequences, bounds = _HEAD.unpack(content)
    if version != _VERSION:
        raise ValueError(f"{path} has index version {version}; only {_VERSION} is known")
    if code not in _TYPES:
        raise ValueError(f"{path} has token type code {code}; known are 1 to {max(_TYPES)}")
    return np.dtype(_TYPES[code]), sequences, bounds


def _columns(
    content: NDArray[Any], sequences: int, bounds: int
) -> tuple[NDArray[np.int32], NDArray[np.int64], NDArray[np.int64]]:
    lengths, rest = content[: 4 * sequences], content[4 * sequences :]
    offsets, documents = rest[: 8 * sequences], rest[8 * sequences :]
    assert len(documents) == 8 * bounds
    return lengths.view("<i4"), offsets.view("<i8"), documents.view("<i8")


def _check(
    path: Path, binary: Path, kind: np.dtype[Any], held: int,
    lengths: NDArray[np.int32], offsets: NDArray[np.int64],
) -> None:  # fmt: skip
    """Every sequence lies within the tokens."""
    ends = offsets + lengths.astype(np.int64) * kind.itemsize
    wrong = (lengths < 0) | (offsets < 0) | (offsets % kind.itemsize != 0) | (ends > held)
    if wrong.any():
        at = int(np.flatnonzero(wrong)[0])
        raise ValueError(
            f"{path}: sequence {at} is {lengths[at]} tokens at byte {offsets[at]}, and "
            f"{binary.name} has {held} bytes of {kind}; the two files do not belong together"
        )


def _check_bounds(path: Path, bounds: NDArray[np.int64], sequences: int) -> None:
    sound = len(bounds) > 0 and bounds[0] == 0 and bounds[-1] == sequences
    if not sound or (np.diff(bounds) < 0).any():
        raise ValueError(f"{path}: the document bounds do not run from 0 to {sequences}")
