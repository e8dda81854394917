import json
from pathlib import Path
from typing import Any

import pytest

from posttrain.data import tiny
from posttrain.data.chat import ChatFormat
from posttrain.rl.config import RlConfig
from posttrain.rl.prompts import PromptDataset, freeze


@pytest.fixture
def data(tmp_path: Path) -> Path:
    rows = tiny.prompts(3, 60, thinking=0.0)
    (tmp_path / "train.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    return tmp_path


def _config(thinking: float | None = None, **changes: Any) -> RlConfig:
    source = {"data": "prompts", "verifier": "answer", "thinking": thinking}
    asked = {"sources": {"sums": source}, "steps": 1, "prompts_per_step": 8}
    return RlConfig.model_validate(asked | changes)


def _freeze(config: RlConfig, data: Path, chat: ChatFormat, seed: int = 7) -> list[dict[str, Any]]:
    target = data / "prompts.jsonl"
    assert freeze(config, {"prompts": data}, chat, seed, target) == 60
    return [json.loads(line) for line in target.read_text().splitlines()]


def test_prompts_end_where_the_assistant_begins(data: Path, chat: ChatFormat) -> None:
    rows = _freeze(_config(), data, chat)
    begin, start = chat.control["<|assistant_start|>"], chat.control["<s>"]
    assert {row["ids"][-1] for row in rows} == {begin}
    assert all(row["ids"].count(start) == 1 and row["ids"][0] == start for row in rows)
    assert {row["verifier"] for row in rows} == {"answer"}
    assert {row["answer_tool"] for row in rows} == {True}


def test_a_prompt_without_the_answer_tool_says_so(tmp_path: Path, chat: ChatFormat) -> None:
    rows = [row | {"tools": []} for row in tiny.prompts(3, 60, thinking=0.0)]
    (tmp_path / "train.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    assert {row["answer_tool"] for row in _freeze(_config(), tmp_path, chat)} == {False}


def test_thinking_is_a_share_drawn_by_the_seed(data: Path, chat: ChatFormat) -> None:
    half = [row["deliberation"] for row in _freeze(_config(0.5), data, chat)]
    assert 15 < sum(half) < 45
    assert half == [row["deliberation"] for row in _freeze(_config(0.5), data, chat)]
    assert half != [row["deliberation"] for row in _freeze(_config(0.5), data, chat, seed=8)]
    assert not any(row["deliberation"] for row in _freeze(_config(), data, chat))


def test_a_prompt_too_long_or_too_few_prompts_are_refused(data: Path, chat: ChatFormat) -> None:
    with pytest.raises(ValueError, match=r"lengths\.prompt is 4"):
        _freeze(_config(lengths={"prompt": 4}), data, chat)
    with pytest.raises(ValueError, match="60 prompts in all, fewer than prompts_per_step = 61"):
        _freeze(_config(prompts_per_step=61), data, chat)


def test_a_prompt_without_gold_is_refused(tmp_path: Path, chat: ChatFormat) -> None:
    row = tiny.prompts(3, 1, thinking=0.0)[0] | {"gold": []}
    (tmp_path / "train.jsonl").write_text(json.dumps(row))
    with pytest.raises(ValueError, match=r"source sums, train\.jsonl:1: no gold answer"):
        _freeze(_config(), tmp_path, chat)


def test_the_loader_sees_the_frozen_rows_in_order(data: Path, chat: ChatFormat) -> None:
    rows = _freeze(_config(), data, chat)
    dataset = PromptDataset(str(data / "prompts.jsonl"))
    assert len(dataset) == 60
    assert [dataset[place]["raw_prompt"] for place in (0, 59)] == [rows[0]["ids"], rows[59]["ids"]]
    assert json.loads(dataset[5]["item"])["gold"] == rows[5]["gold"]
    assert {dataset.source(place) for place in range(60)} == {"sums"}
