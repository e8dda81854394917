"""Formats: the same rows from each of them, and whatever is broken named by file, row and field."""

import datetime
import json
import math
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import datasets
import numpy as np
import pyarrow
import pyarrow.ipc
import pyarrow.parquet
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from posttrain.data import formats, indexed
from posttrain.data.checks.rows import Fault, Row
from posttrain.data.sources import Files

datasets.disable_progress_bar()

Rows = Sequence[dict[str, Any]]


def talk(number: int, **more: Any) -> dict[str, Any]:
    messages = [{"role": "user", "content": f"q{number}"}, {"role": "assistant", "content": "a"}]
    return {"id": f"t{number}", "messages": messages, **more}


def write_jsonl(folder: Path, rows: Rows) -> str:
    (folder / "talk.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    return "talk.jsonl"


def write_parquet(folder: Path, rows: Rows) -> str:
    pyarrow.parquet.write_table(
        pyarrow.Table.from_pylist(list(rows)), folder / "talk.parquet", row_group_size=2
    )
    return "talk.parquet"


def write_saved(folder: Path, rows: Rows) -> str:
    datasets.Dataset.from_list(list(rows)).save_to_disk(folder / "saved", num_shards=2)
    return "saved"


WRITERS: dict[str, Callable[[Path, Rows], str]] = {
    "jsonl": write_jsonl, "parquet": write_parquet, "huggingface": write_saved,
}  # fmt: skip


def read(folder: Path, *paths: str) -> list[Row | Fault]:
    return list(Files("talk", folder, paths).rows())


def faults(folder: Path, *paths: str) -> list[str]:
    return [str(row) for row in read(folder, *paths) if isinstance(row, Fault)]


@pytest.mark.parametrize("name", WRITERS)
def test_every_format_gives_the_same_rows(tmp_path: Path, name: str) -> None:
    rows = [talk(n) for n in range(5)]
    rows[3]["messages"][1]["thoughts"] = "t"
    path = WRITERS[name](tmp_path, rows)
    assert formats.named(tmp_path / path) == name
    found = read(tmp_path, path)
    assert [row.content for row in found if isinstance(row, Row)] == [
        {**row, "tools": [], "deliberation": number == 3} for number, row in enumerate(rows)
    ]


def test_rows_are_counted_within_each_file(tmp_path: Path) -> None:
    write_saved(tmp_path, [talk(n) for n in range(5)])
    places = [(row.place.file, row.place.number) for row in read(tmp_path, "saved")]
    first, second = (f"saved/data-0000{n}-of-00002.arrow" for n in range(2))
    assert places == [(first, 1), (first, 2), (first, 3), (second, 1), (second, 2)]


@pytest.mark.parametrize("name", WRITERS)
def test_an_unknown_role_names_file_row_and_field(tmp_path: Path, name: str) -> None:
    rows = [talk(0), talk(1), talk(2)]
    rows[1]["messages"][0]["role"] = "teacher"
    [fault] = faults(tmp_path, WRITERS[name](tmp_path, rows))
    assert fault.startswith(("talk.", "saved/data-00000-of-00002.arrow: "))
    assert "row 2: messages[0].role: unknown role 'teacher'" in fault


def test_null_in_a_column_means_absent(tmp_path: Path) -> None:
    called = {"name": "f", "arguments": {"x": 1}}
    rows = [talk(0), talk(1)]
    rows[0]["messages"][1]["tool_calls"] = [called]
    rows[1]["messages"][1]["tool_calls"] = [{"name": "g", "arguments": {"y": [None, 2]}}]
    found = read(tmp_path, write_parquet(tmp_path, rows))
    contents = [row.content for row in found if isinstance(row, Row)]
    assert contents[0]["messages"][1]["tool_calls"] == [called]
    assert contents[1]["messages"][1]["tool_calls"][0]["arguments"] == {"y": [None, 2]}
    assert contents[0]["messages"][0].keys() == {"role", "content"}


@pytest.mark.parametrize(
    ("value", "told"),
    [
        (b"x", "seen: is bytes, which JSON has no form for"),
        (datetime.date(2020, 1, 1), "seen: is date"),
        (math.nan, "seen: is nan"),
        ({"deep": [math.inf]}, "seen.deep[0]: is inf"),
    ],
)
def test_a_value_of_the_wrong_dtype_names_its_field(tmp_path: Path, value: Any, told: str) -> None:
    path = write_parquet(tmp_path, [talk(0, seen=value)])
    [fault] = faults(tmp_path, path)
    assert f"talk.parquet: row 1: {told}" in fault


def test_a_text_that_is_not_utf8_is_one_row(tmp_path: Path) -> None:
    offsets = np.array([0, 1, 3, 4], "<i4").tobytes()
    column = pyarrow.Array.from_buffers(
        pyarrow.string(), 3, [None, pyarrow.py_buffer(offsets), pyarrow.py_buffer(b"a\xff\xfeb")]
    )
    pyarrow.parquet.write_table(pyarrow.table({"text": column}), tmp_path / "t.parquet")
    found = read(tmp_path, "t.parquet")
    assert [isinstance(row, Row) for row in found] == [True, False, True]
    assert "t.parquet: row 2: is not UTF-8" in str(found[1])


def test_a_cut_file_is_a_fault_in_every_format(tmp_path: Path) -> None:
    rows = [talk(n) for n in range(8)]
    for name, write in WRITERS.items():
        path = tmp_path / write(tmp_path, rows)
        file = path / "data-00001-of-00002.arrow" if path.is_dir() else path
        whole = file.read_bytes()
        # Lines cut between two of them are whole lines: that is for the digests to find.
        for size in (0, 1, len(whole) // 2 + 5, len(whole) - 9, len(whole) - 2)[name == "jsonl" :]:
            file.write_bytes(whole[:size])
            found = read(tmp_path, path.name)
            assert isinstance(found[-1], Fault)
            assert file.name in str(found[-1])
        file.write_bytes(whole)
        assert not faults(tmp_path, path.name)


def test_a_stream_cut_between_two_batches_is_found(tmp_path: Path) -> None:
    """Arrow reads it as a shorter stream, without a word."""
    write_saved(tmp_path, [talk(n) for n in range(6)])
    file = tmp_path / "saved/data-00001-of-00002.arrow"
    file.write_bytes(file.read_bytes()[:-8])
    with pyarrow.memory_map(str(file)) as source, pyarrow.ipc.open_stream(source) as stream:
        assert stream.read_all().num_rows == 3
    assert faults(tmp_path, "saved") == [
        "saved/data-00001-of-00002.arrow: row 4: the file was cut: its stream has no end; "
        "repair or remove the row"
    ]


def test_a_folder_has_the_files_its_state_lists(tmp_path: Path) -> None:
    write_saved(tmp_path, [talk(n) for n in range(4)])
    folder = tmp_path / "saved"
    extra = folder / "data-00002-of-00002.arrow"
    extra.write_bytes(b"")
    with pytest.raises(ValueError, match=f"the folder also has {extra.name}"):
        formats.module("huggingface").files(folder)
    extra.unlink()
    (folder / "data-00000-of-00002.arrow").unlink()
    with pytest.raises(ValueError, match=r"the folder lacks data-00000-of-00002\.arrow"):
        formats.module("huggingface").files(folder)
    (folder / "state.json").write_text("[]")
    with pytest.raises(ValueError, match=r"state\.json does not list"):
        formats.module("huggingface").files(folder)
    (folder / "state.json").unlink()
    with pytest.raises(ValueError, match="no saved dataset"):
        formats.module("huggingface").files(folder)


def test_of_several_splits_one_is_named(tmp_path: Path) -> None:
    several = datasets.Dataset.from_list([talk(n) for n in range(4)]).train_test_split(0.5, seed=1)
    several.save_to_disk(tmp_path / "both")
    with pytest.raises(ValueError, match="several splits; name one of test, train in it"):
        read(tmp_path, "both")
    assert len(read(tmp_path, "both/train")) == 2


def test_what_no_suffix_tells_must_be_stated(tmp_path: Path) -> None:
    (tmp_path / "talk.txt").write_text(json.dumps(talk(0)))
    with pytest.raises(ValueError, match=r"talk\.txt: its suffix tells no format; state one of"):
        read(tmp_path, "talk.txt")
    assert len(list(Files("talk", tmp_path, ["talk.txt"], "jsonl").rows())) == 1


SEQUENCE = st.lists(st.tuples(st.integers(0, 65000), st.integers(0, 1)), min_size=1, max_size=20)


@settings(max_examples=30)
@given(rows=st.lists(SEQUENCE, min_size=1, max_size=6))
def test_tokenised_conversations_come_back(
    tmp_path_factory: pytest.TempPathFactory, rows: list[list[tuple[int, int]]]
) -> None:
    folder = tmp_path_factory.mktemp("indexed")
    joined = [[[token for token, _ in row] + [flag for _, flag in row]] for row in rows]
    indexed.write(folder / "talk", joined, indexed.token_type(65000))
    for name in ("talk.bin", "talk.idx"):
        assert [row.content for row in read(folder, name) if isinstance(row, Row)] == [
            {"tokens": [token for token, _ in row], "mask": [flag for _, flag in row]}
            for row in rows
        ]


@pytest.mark.parametrize(
    ("values", "kind", "told"),
    [
        ([1, 2, 3], "<u2", "row 2: mask: its sequence has 3 values"),
        ([], "<u2", "row 2: mask: its sequence has 0 values"),
        ([1, 2, 0, 7], "<u2", "row 2: mask[1]: must be 0 or 1, is 7"),
        ([5, -1, 0, 1], "<i4", "row 2: tokens[1]: must be a token id, is -1"),
        ([5, 1, 0, 1], "<f4", "tokens: wrong dtype: float32"),
    ],
)
def test_a_broken_sequence_is_named(
    tmp_path: Path, values: list[int], kind: str, told: str
) -> None:
    indexed.write(tmp_path / "talk", [[[9, 1]], [values], [[9, 1]]], np.dtype(kind))
    found = read(tmp_path, "talk.bin")
    assert len(found) == 3
    assert told in str(found[1])


def test_two_files_that_do_not_fit_are_a_fault(tmp_path: Path) -> None:
    indexed.write(tmp_path / "talk", [[[9, 1]]], np.dtype("<u2"))
    (tmp_path / "talk.bin").write_bytes(b"\x00")
    [fault] = faults(tmp_path, "talk.bin")
    assert "the two files do not belong together" in fault
    (tmp_path / "talk.idx").write_bytes(b"")
    [fault] = faults(tmp_path, "talk.bin")
    assert "talk.idx is not a Megatron index" in fault
