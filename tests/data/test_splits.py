"""Splits in shards: read in order, whole, or refused by the name of the shard at fault."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from posttrain.data import manifest, shards, splits
from posttrain.data.checks.rows import Row
from posttrain.data.longcontext.sources import SplitTexts

ROWS = [{"text": f"row {number} " + "x" * (7 * number % 31)} for number in range(40)]


def written(folder: Path, most: int, monkeypatch: pytest.MonkeyPatch) -> manifest.Split:
    """The rows in `folder`, in shards of `most` bytes; what the manifest says of them."""
    folder.mkdir()
    monkeypatch.setattr(shards, "MOST_BYTES", most)
    return manifest.write(folder, {"train": ROWS, "holdout": ROWS[:2]}).splits["train"]


@pytest.fixture
def cut(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The path of a split that is in several shards."""
    assert len(written(tmp_path / "cut", 200, monkeypatch).shards) > 5
    return tmp_path / "cut/train.jsonl"


def test_what_fits_is_one_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    split = written(tmp_path / "small", shards.MOST_BYTES, monkeypatch)
    assert [(shard.file, shard.rows) for shard in split.shards] == [("train.jsonl", 40)]
    assert sorted(file.name for file in (tmp_path / "small").iterdir()) == [
        "holdout.jsonl", "manifest.json", "train.jsonl",
    ]  # fmt: skip


def test_rows_their_order_and_their_digest_do_not_depend_on_the_size_of_shards(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    digests = set()
    for most in (1, 100, 300, 10**6):
        split = written(tmp_path / str(most), most, monkeypatch)
        path = tmp_path / f"{most}/train.jsonl"
        assert list(splits.contents(path)) == ROWS
        assert split.sha256 == splits.digest_of(path)
        assert split.rows == sum(shard.rows or 0 for shard in split.shards) == 40
        assert all(shard.bytes <= most or shard.rows == 1 for shard in split.shards)
        digests.add(split.sha256)
    assert len(digests) == 1


@given(sizes=st.lists(st.integers(0, 50), max_size=30), most=st.integers(1, 120))
def test_a_shard_is_as_full_as_whole_rows_allow(
    tmp_path_factory: pytest.TempPathFactory, sizes: list[int], most: int
) -> None:
    folder = tmp_path_factory.mktemp("shards")
    lines = [b"x" * size + b"\n" for size in sizes]
    with shards.Shards(folder, "train", most) as target:
        for line in lines:
            target.add(line)
    files = [folder / shard.file for shard in target.written]
    assert b"".join(file.read_bytes() for file in files) == b"".join(lines)
    assert target.written == tuple(
        shards.Shard.of(file, file.name).model_copy(update={"rows": shard.rows})
        for file, shard in zip(files, target.written, strict=True)
    )
    firsts = [file.read_bytes().index(b"\n") + 1 for file in files[1:]]
    for shard, first in zip(target.written, firsts, strict=False):
        assert shard.bytes + first > most


def test_rows_know_their_shard_and_their_place_in_it(cut: Path) -> None:
    rows = [row for row in splits.rows(cut, "talk") if isinstance(row, Row)]
    second = manifest.read(cut.parent).splits["train"].shards[0].rows
    assert second is not None
    assert str(rows[second].place) == "train-00001.jsonl: row 1"
    assert [row.content for row in rows] == ROWS


def test_texts_are_found_in_every_shard(cut: Path) -> None:
    texts = SplitTexts(cut)
    assert [texts[number] for number in range(len(texts))] == [row["text"] for row in ROWS]


def truncated(shard: Path) -> None:
    """Lose the last byte."""
    shard.write_bytes(shard.read_bytes()[:-1])


def doubled(shard: Path) -> None:
    """A shard more, after the last."""
    shard.with_name("train-00099.jsonl").write_bytes(shard.read_bytes())


@pytest.mark.parametrize(
    ("harm", "told"),
    [
        (Path.unlink, "shard train-00002.jsonl is missing"),
        (truncated, r"shard train-00002.jsonl has [\d,]+ of [\d,]+ bytes"),
        (doubled, "shard train-00099.jsonl is not in the manifest"),
    ],
)
def test_a_missing_truncated_or_extra_shard_is_refused_by_name(
    cut: Path, harm: Callable[[Path], None], told: str
) -> None:
    harm(cut.with_name("train-00002.jsonl"))
    readers: list[Callable[[Path], Any]] = [
        lambda path: list(splits.contents(path)),
        lambda path: list(splits.rows(path, "talk")),
        splits.digest_of,
        SplitTexts,
    ]
    for read in readers:
        with pytest.raises(ValueError, match=told):
            read(cut)


def test_a_file_beside_that_belongs_to_no_split_is_nobodys_business(cut: Path) -> None:
    cut.with_name("trials.jsonl").write_text("{}\n")
    cut.with_name("train-trials.jsonl").write_text("{}\n")
    assert len(list(splits.contents(cut))) == 40


def test_a_split_that_is_not_there_is_told_with_those_that_are(cut: Path) -> None:
    with pytest.raises(ValueError, match="has no split 'test'; it has train, holdout"):
        splits.files(cut.with_name("test.jsonl"))


def test_a_line_separator_within_a_text_ends_no_row(tmp_path: Path) -> None:
    """`str.splitlines` takes U+2028, U+0085 and others for ends of lines; JSON does not."""
    row = {"text": "one\u2028two\x85three\x0bfour"}
    manifest.write(tmp_path, {"train": [row]})
    assert json.loads((tmp_path / "train.jsonl").read_bytes()) == row
    assert list(splits.contents(tmp_path / "train.jsonl")) == [row]
