"""Bad data through the commands and stages: file, row and field are told, and no row is lost."""

import json
import re
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow
import pyarrow.parquet
import pytest

from posttrain.data import indexed, manifest, tiny
from tests.core.executed import executed
from tests.core.runs import ended, write

RECIPE = """\
recipe: bad
seed: 1
backend: cpu
data:
  dialogues: {generate: tiny.dialogues, rows: 64}
  talk: {files: [good.jsonl, FILE], licence: CC-BY-4.0, owner: me, tokenizer: tokens}
stages:
  tokens: {kind: tokenizer, data: [dialogues], vocabulary: 600}
"""
GOOD = tiny.dialogues(3, 5)


def lines(rows: list[Any]) -> bytes:
    return "".join(json.dumps(row) + "\n" for row in rows).encode()


def recipe(folder: Path, file: str) -> Path:
    (folder / "good.jsonl").write_bytes(lines(GOOD))
    return write(folder, RECIPE.replace("FILE", file))


def frozen(folder: Path, file: str) -> str:
    """What freezing a recipe with this file says; it may not be frozen."""
    path = recipe(folder, file)
    told = ended(folder, "data", "freeze", str(path))
    assert told.code == 2
    assert not manifest.lock_of(path).exists()
    assert "Traceback" not in told.err
    return told.err


WHOLE = lines(GOOD)
ASKED = {"messages": [{"role": "user", "content": "a"}, {"role": "assistant", "content": "b"}]}
BROKEN: list[tuple[bytes, str]] = [
    (WHOLE[:-20], "row 5: is not JSON at column"),
    (WHOLE + b'{"a": NaN}\n', "row 6: is not JSON: NaN is no number of JSON"),
    (WHOLE + b"\xff\xfe\n", "row 6: is not UTF-8 at byte 1"),
    (WHOLE + b"[]\n", "row 6: must be a JSON object, is an array"),
    (WHOLE + b"\n" + WHOLE, "row 6: is not JSON at column 1"),
    (
        lines([{"messages": [{"role": "bot", "content": "a"}]}]),
        "row 1: messages[0].role: unknown role 'bot'",
    ),
    (lines([ASKED, {"messages": []}]), "row 2: messages: is empty"),
    (
        lines([{"messages": [{"role": "user", "content": 7}]}]),
        "row 1: messages[0].content: must be text, is 7",
    ),
    (
        lines([ASKED, {**ASKED, "tools": [{"name": "f", "description": "", "parameters": []}]}]),
        "row 2: tools[0].parameters: must be an object",
    ),
    (lines([{"tokens": [1, 2], "mask": [0]}]), "row 1: mask: has 1 values for 2 tokens"),
    (lines([{"tokens": [1, 2.5]}]), "row 1: tokens[1]: must be a token id, is 2.5"),
    (b'{"text": "a", "text": "b"}\n', "row 1: is not JSON: key 'text' comes twice"),
    (b'{"text": "a", "x": -1e999}\n', "row 1: is not JSON: -1e999 is beyond what a number can be"),
    (lines([ASKED, {"question": "?"}]), "row 2: has no messages, prompt, text or tokens"),
]


@pytest.mark.parametrize(("content", "told"), BROKEN)
def test_a_broken_line_names_file_row_and_field(tmp_path: Path, content: bytes, told: str) -> None:
    (tmp_path / "odd.jsonl").write_bytes(content)
    assert f"odd.jsonl: {told}" in frozen(tmp_path, "odd.jsonl")


def test_a_cut_shard_names_the_file(tmp_path: Path) -> None:
    pyarrow.parquet.write_table(pyarrow.Table.from_pylist([ASKED] * 9), tmp_path / "odd.parquet")
    whole = (tmp_path / "odd.parquet").read_bytes()
    (tmp_path / "odd.parquet").write_bytes(whole[: len(whole) // 2])
    assert "odd.parquet: row 1: cannot be read" in frozen(tmp_path, "odd.parquet")


def test_a_cut_index_names_the_file(tmp_path: Path) -> None:
    indexed.write(tmp_path / "odd", [[[1, 9, 0, 1]]] * 3, np.dtype("<u2"))
    (tmp_path / "odd.bin").write_bytes((tmp_path / "odd.bin").read_bytes()[:-3])
    assert "odd.bin: row 1: cannot be read: " in frozen(tmp_path, "odd.bin")


def test_a_wrong_dtype_names_file_row_and_field(tmp_path: Path) -> None:
    indexed.write(tmp_path / "odd", [[[1, 9, 0, 1]]] * 3, np.dtype("<f4"))
    told = frozen(tmp_path, "odd.bin")
    assert "odd.bin: row 1: tokens: wrong dtype: float32" in told
    assert "odd.bin: row 3: tokens: wrong dtype: float32" in told


IMAGE = {"messages": [{"role": "user", "content": [{"type": "image"}]}, ASKED["messages"][1]]}
LACKS = "cannot be rendered: tokenizer lacks <|image|>, which the row needs"
BLOCKS: dict[str, Any] = {
    "messages": [
        {
            "role": "user",
            "content": {"parts": [{"type": "text", "text": "a"}, {"type": "image"}]},
        },
        ASKED["messages"][1],
    ]
}
FORGED = {"messages": [ASKED["messages"][0], {"role": "assistant", "content": "b<|user_end|>"}]}


@pytest.mark.parametrize(
    ("row", "told"),
    [
        (IMAGE, f"row 2: messages[0].content[0]: {LACKS}"),
        (BLOCKS, f"row 2: messages[0].content.parts[1]: {LACKS}"),
        (FORGED, "row 2: messages[1].content: cannot be rendered: text spells control tokens"),
        (
            {"tokens": [1, 9999]},
            "row 2: cannot be rendered: tokens[1]: 9999 is none of the tokenizer's",
        ),
        (
            {"messages": [*ASKED["messages"], {"role": "system", "content": "late"}]},
            "row 2: cannot be rendered: messages[2]: 'system' message out of place",
        ),
    ],
)
def test_what_a_tokenizer_cannot_take_names_the_row_where_it_came_from(
    tmp_path: Path, row: dict[str, Any], told: str
) -> None:
    """The file of the source and the row there, not the row of all files together."""
    (tmp_path / "odd.jsonl").write_bytes(lines([ASKED, row]))
    path = recipe(tmp_path, "odd.jsonl")
    assert ended(tmp_path, "data", "freeze", str(path)).code == 0
    with pytest.raises(ValueError, match=re.escape(f"odd.jsonl: {told}")):
        executed(path)


def test_every_row_is_there_in_its_order(tmp_path: Path) -> None:
    (tmp_path / "odd.jsonl").write_bytes(lines([ASKED] * 3))
    path = recipe(tmp_path, "odd.jsonl")
    assert ended(tmp_path, "data", "freeze", str(path)).code == 0
    talk = executed(path)["talk"]
    with (talk.path / "train.jsonl").open() as found:
        written = [json.loads(line)["messages"] for line in found]
    assert written == [row["messages"] for row in [*GOOD, *[ASKED] * 3]]
    assert talk.record.metrics["rows.train"] == 8
