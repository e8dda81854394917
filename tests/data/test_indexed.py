"""Indexed files: what is written is read; what was damaged is refused with its place."""

import struct
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from posttrain.data.indexed import Indexed, read, token_type, write

Documents = list[list[list[int]]]

_TOKENS = st.lists(st.integers(0, 65_499), max_size=5)
_DOCUMENTS = st.lists(st.lists(_TOKENS, max_size=3), max_size=6)


def content(file: Indexed) -> Documents:
    return [[one.tolist() for one in file.document(at)] for at in range(file.documents)]


@given(_DOCUMENTS, st.sampled_from([100, 65_499, 65_500, 300_000]))
def test_what_is_written_is_read(
    tmp_path_factory: pytest.TempPathFactory, documents: Documents, vocabulary: int
) -> None:
    prefix = tmp_path_factory.mktemp("indexed") / "shard.v1"
    write(prefix, documents, token_type(vocabulary))
    assert content(read(prefix)) == documents
    assert [one.tolist() for one in read(prefix)] == [one for d in documents for one in d]


def test_the_bytes_are_megatrons(tmp_path: Path) -> None:
    write(tmp_path / "a", [[[1, 2, 3]], [[4], [5, 6]]], token_type(300))
    assert (tmp_path / "a.bin").read_bytes() == struct.pack("<6H", 1, 2, 3, 4, 5, 6)
    wanted = b"MMIDIDX\x00\x00" + struct.pack("<QBQQ", 1, 8, 3, 3)
    wanted += struct.pack("<3i3q3q", 3, 1, 2, 0, 6, 8, 0, 1, 3)
    assert (tmp_path / "a.idx").read_bytes() == wanted


def test_a_token_the_type_cannot_hold_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="document 1 has a token that uint16 cannot hold"):
        write(tmp_path / "a", [[[1]], [[70_000]]], token_type(300))


@pytest.fixture
def shard(tmp_path: Path) -> Path:
    write(tmp_path / "a", [[[1, 2, 3]], [[4], [5, 6]]], token_type(300))
    return tmp_path / "a"


@given(cut=st.integers(1, 90))
def test_a_cut_index_is_refused(tmp_path_factory: pytest.TempPathFactory, cut: int) -> None:
    prefix = tmp_path_factory.mktemp("cut") / "a"
    write(prefix, [[[1, 2, 3]], [[4], [5, 6]]], token_type(300))
    index = prefix.with_name("a.idx")
    index.write_bytes(index.read_bytes()[:-cut])
    with pytest.raises(ValueError, match=r"a\.idx"):
        read(prefix)


def test_cut_tokens_are_refused(shard: Path) -> None:
    binary = shard.with_name("a.bin")
    binary.write_bytes(binary.read_bytes()[:-1])
    with pytest.raises(ValueError, match=r"sequence 2 is 2 tokens at byte 8, and a\.bin has 11"):
        read(shard)


@pytest.mark.parametrize(
    ("at", "byte", "what"),
    [
        (0, 0, "does not begin with MMIDIDX"),
        (9, 2, "index version 2"),
        (17, 9, "token type code 9"),
        (34, 200, "sequence 0 is 200 tokens"),
        (-24, 1, "document bounds"),
        (-8, 2, "document bounds"),
    ],
)
def test_a_damaged_index_is_refused(shard: Path, at: int, byte: int, what: str) -> None:
    index = shard.with_name("a.idx")
    damaged = bytearray(index.read_bytes())
    damaged[at] = byte
    index.write_bytes(bytes(damaged))
    with pytest.raises(ValueError, match=what):
        read(shard)


def test_tokens_are_mapped_not_copied(shard: Path) -> None:
    assert isinstance(read(shard).tokens, np.memmap)
