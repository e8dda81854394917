"""Tools declared where none is called: by share and seed, and nowhere else."""

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from posttrain.data import manifest, tiny
from posttrain.data.tools import Declared, declare, declared, tools_of
from tests.data.checks.samples import dialogue

POOL = [{"name": name, "description": "d", "parameters": {}} for name in "abcde"]
CALLS = {**dialogue("a", "b"), "messages": [
    {"role": "user", "content": "a"},
    {"role": "assistant", "tool_calls": [{"name": "f", "arguments": {}}]},
    {"role": "tool", "content": "b"},
]}  # fmt: skip
ROWS: list[dict[str, Any]] = [
    *(dialogue(f"question {n}", "so") for n in range(200)),
    CALLS, {**dialogue("a", "b"), "tools": POOL[:1]}, {"text": "a document"},
]  # fmt: skip


def asked(**parameters: Any) -> Declared:
    return Declared.model_validate(
        {"from": "talk", "pool": ["tools"], "share": "30%", **parameters}
    )


def made(
    rows: Sequence[Mapping[str, Any]], seed: int, parameters: Declared
) -> tuple[list[Mapping[str, Any]], dict[str, float]]:
    figures = {"calls_none": 0.0, "declared": 0.0}
    return list(declared(iter(rows), list(POOL), seed, parameters, figures)), figures


@settings(max_examples=30, deadline=None)
@given(st.integers(0, 99), st.floats(0, 1), st.integers(1, 9))
def test_only_conversations_without_tools_are_changed(seed: int, share: float, most: int) -> None:
    found, figures = made(ROWS, seed, asked(share=share, most=most))
    changed = [row for row, before in zip(found, ROWS, strict=True) if row != before]
    assert found[-3:] == ROWS[-3:]
    assert (figures["calls_none"], figures["declared"]) == (200, len(changed))
    assert abs(len(changed) / 200 - share) < 0.18  # Five standard deviations.
    for row in changed:
        names = [tool["name"] for tool in row["tools"]]
        assert 1 <= len(set(names)) == len(names) <= min(most, len(POOL))
    assert found == made(ROWS, seed, asked(share=share, most=most))[0]


def test_none_and_all() -> None:
    assert made(ROWS, 1, asked(share=0))[0] == ROWS
    assert made(ROWS, 1, asked(share=1))[1]["declared"] == 200


def written(folder: Path, name: str, rows: Sequence[Mapping[str, Any]]) -> Path:
    path = folder / name
    path.mkdir()
    manifest.write(path, {"train": rows, "holdout": rows[:1]})
    return path


def test_a_pool_is_what_conversations_offer(tmp_path: Path) -> None:
    offers = [*tiny.dialogues(0, 9), {**dialogue("a", "b"), "tools": POOL[:2]}]
    folders = {
        "data.talk": written(tmp_path, "talk", ROWS),
        "data.tools": written(tmp_path, "tools", offers),
    }
    assert tools_of([folders["data.tools"]]) == [tiny.ANSWER_TOOL, *POOL[:2]]
    splits, figures = declare(1, asked(), folders)
    assert list(splits["holdout"]) == ROWS[:1]
    assert figures["calls_none"] == 0
    rows = list(splits["train"])
    assert figures["tools"] == 3
    assert figures["declared"] == sum(bool(row.get("tools")) for row in rows[:200])
    assert json.dumps(rows[200:]) == json.dumps(ROWS[200:])


def test_an_empty_pool_is_refused(tmp_path: Path) -> None:
    folder = written(tmp_path, "talk", ROWS[:3])
    with pytest.raises(ValueError, match="tools offer no tools, so there is none to declare"):
        declare(1, asked(), {"data.talk": folder, "data.tools": folder})
