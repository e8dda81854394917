"""Held-out evaluation beside the training: what it measures, when, and what it never does."""

import asyncio
import json
import threading
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from posttrain.data import tiny
from posttrain.data.chat import ChatFormat
from posttrain.evaluation.suites import Answers, Needles
from posttrain.rl.config import RlConfig
from posttrain.rl.held_out import attempts
from posttrain.rl.prompts import hold_out
from posttrain.rl.watch import AT_ONCE, Attempt, Results, Watch, figures, read
from tests.rewards.service import serving
from tests.rl.test_agent import Server, _response

ROWS = [{"suite": "sums", "attempts": 2}] * 3 + [{"suite": "formulas", "attempts": 1}] * 2


def _right(score: float | None = 1.0) -> Attempt:
    return Attempt(score, 4, True, (2, 3))


class Servers:
    """Answers once it is told to go on; counts how many wait at most."""

    def __init__(self) -> None:
        self.go, self.waiting, self.most = threading.Event(), 0, 0

    async def attempt(self, row: Any) -> Attempt:
        self.waiting += 1
        self.most = max(self.most, self.waiting)
        while not self.go.is_set():
            await asyncio.sleep(0.001)
        self.waiting -= 1
        return _right()


def _watch(folder: Path, attempt: Any, rows: Any = ROWS, resumed: int = 0) -> Watch:
    results = Results(folder / "watch.jsonl", resumed)
    return Watch(rows, attempt, results, lambda: None, every=2)


def test_training_goes_on_while_it_is_measured_and_the_last_step_is_awaited(
    tmp_path: Path,
) -> None:
    servers = Servers()
    watch = _watch(tmp_path, servers.attempt)
    assert [step for step in range(5) if watch.due(step)] == [0, 2, 4]
    assert watch.begin(2)
    assert not watch.begin(4), "one evaluation at a time"
    assert watch.results.latest() == {}
    servers.go.set()
    watch.finish(6, patience=30)
    told = [(row["step"], row["suite"], row["n"]) for row in read(tmp_path / "watch.jsonl")]
    assert told == [(2, "sums", 3), (2, "formulas", 2), (6, "sums", 3), (6, "formulas", 2)]
    latest = watch.results.latest()
    assert (latest["watch.sums.accuracy"], latest["watch.sums.step"]) == (1.0, 6.0)


def test_it_leaves_the_servers_to_the_training(tmp_path: Path) -> None:
    servers = Servers()
    watch = _watch(tmp_path, servers.attempt, [{"suite": "sums", "attempts": 2}] * AT_ONCE)
    watch.begin(0)
    threading.Timer(0.2, servers.go.set).start()
    watch.finish(0, patience=30)
    assert servers.most <= AT_ONCE


def test_what_breaks_it_ends_the_run_with_the_reason(tmp_path: Path) -> None:
    async def broken(row: Any) -> Attempt:
        raise RuntimeError("the rollout server is gone")

    watch = _watch(tmp_path, broken)
    watch.begin(0)
    with pytest.raises(RuntimeError, match="the rollout server is gone"):
        watch.finish(2, patience=30)


def test_an_evaluation_that_stands_still_is_not_awaited_for_ever(tmp_path: Path) -> None:
    watch = _watch(tmp_path, Servers().attempt)
    watch.begin(0)
    with pytest.raises(TimeoutError, match="stood still for 0 s"):
        watch.finish(0, patience=0.05)


def test_results_after_the_checkpoint_are_made_again(tmp_path: Path) -> None:
    servers = Servers()
    servers.go.set()
    watch = _watch(tmp_path, servers.attempt)
    for step in (2, 4):
        watch.finish(step, patience=30)
    path = tmp_path / "watch.jsonl"
    path.write_text(path.read_text() + '{"step": 6, "su')  # torn by a crash
    resumed = _watch(tmp_path, servers.attempt, resumed=2)
    assert resumed.has(2)
    assert not resumed.has(4)
    resumed.finish(4, patience=30)
    assert [row["step"] for row in read(path)] == [2, 2, 4, 4]


def test_an_evaluation_of_which_a_crash_left_some_suites_is_made_again(tmp_path: Path) -> None:
    servers = Servers()
    servers.go.set()
    _watch(tmp_path, servers.attempt).finish(4, patience=30)
    path = tmp_path / "watch.jsonl"
    path.write_text(path.read_text().splitlines(keepends=True)[0])  # Killed between two suites.
    resumed = _watch(tmp_path, servers.attempt, resumed=4)
    assert not resumed.has(4)
    resumed.finish(4, patience=30)
    assert resumed.has(4)
    assert {row["suite"] for row in read(path)} == {"sums", "formulas"}


@given(st.lists(st.lists(st.sampled_from([0.0, 1.0]), min_size=4, max_size=4), min_size=1))
def test_the_interval_holds_the_accuracy(scores: list[list[float]]) -> None:
    found = figures([[_right(score) for score in tried] for tried in scores])
    assert found["accuracy"] == pytest.approx(sum(map(sum, scores)) / (4 * len(scores)))
    slack = 0.5 / len(scores)  # It is that of whole prompts.
    assert found["low"] - slack <= found["accuracy"] <= found["high"] + slack
    assert 0 <= found["low"] <= found["high"] <= 1


def test_what_was_not_judged_is_neither_right_nor_wrong() -> None:
    found = figures([[_right(), _right()], [_right(), _right(None)], [_right(0.0), _right(0.0)]])
    assert (found["n"], found["lost"], found["accuracy"]) == (2, 1, 0.5)
    assert found["versions"] == [2, 3]
    nothing = figures([[_right(None)]])
    assert (nothing["n"], nothing["lost"]) == (0, 1)
    assert "accuracy" not in nothing


def _data(folder: Path, chat: ChatFormat) -> dict[str, Path]:
    for name, rows in (("prompts", tiny.prompts(3, 20, 1.0)), ("other", tiny.prompts(4, 9, 1.0))):
        (folder / name).mkdir()
        (folder / name / "train.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    (folder / "other" / "train.jsonl").rename(folder / "other" / "holdout.jsonl")
    return {"prompts": folder / "prompts", "suite.sums": folder / "other"}


def _hold_out(folder: Path, chat: ChatFormat, data: dict[str, Path], suite: Any) -> list[Any]:
    config = RlConfig.model_validate(
        {"sources": {"sums": {"data": "prompts", "verifier": "answer"}}, "steps": 1,
         "lengths": {"prompt": 96, "response": 32}, "watch": {"suites": ["sums"]}}
    )  # fmt: skip
    target = folder / "held_out.jsonl"
    assert hold_out(config, {"sums": suite}, data, chat, target) == 9
    return [json.loads(line) for line in target.read_text().splitlines()]


SUITE = Answers(kind="answers", data="other.holdout", attempts=4, temperature=1.0)


def test_held_out_prompts_are_asked_without_deliberation(tmp_path: Path, chat: ChatFormat) -> None:
    rows = _hold_out(tmp_path, chat, _data(tmp_path, chat), SUITE.model_copy(
        update={"max_new_tokens": 24}
    ))  # fmt: skip
    source = [json.loads(line) for line in (tmp_path / "other" / "holdout.jsonl").open()]
    quiet = [chat.render(row | {"deliberation": False}, add_generation_prompt=True).ids
             for row in source]  # fmt: skip
    assert [row["ids"] for row in rows] == quiet
    assert {(row["attempts"], row["temperature"], row["max_new_tokens"]) for row in rows} == {
        (4, 1.0, 24)
    }


def test_what_is_trained_on_is_not_held_out(tmp_path: Path, chat: ChatFormat) -> None:
    data = _data(tmp_path, chat)
    held = tmp_path / "other" / "holdout.jsonl"
    lines = held.read_text().splitlines()
    copied = json.loads((tmp_path / "prompts" / "train.jsonl").read_text().splitlines()[6])
    copied["messages"][-1]["content"] = f" {copied['messages'][-1]['content'].upper()}\n"
    held.write_text("\n".join([*lines[:4], json.dumps(copied), *lines[5:]]))
    said = r"suite sums, other\.holdout row 5 is trained on \(source sums, row 7\)"
    with pytest.raises(ValueError, match=said):
        _hold_out(tmp_path, chat, data, SUITE)


def test_a_suite_must_be_one_of_answers_and_have_room(tmp_path: Path, chat: ChatFormat) -> None:
    data = _data(tmp_path, chat)
    with pytest.raises(ValueError, match="suite sums is of kind needles"):
        _hold_out(tmp_path, chat, data, Needles(kind="needles", data="other.holdout"))
    with pytest.raises(ValueError, match=r"take \d+ tokens, lengths\.prompt and .*128"):
        _hold_out(tmp_path, chat, data, SUITE.model_copy(update={"max_new_tokens": 120}))


def test_an_attempt_is_generated_by_the_protocol_and_judged(
    tmp_path: Path, chat: ChatFormat
) -> None:
    server = Server(_response(chat, thinks=False))
    row = {"ids": [1, 2], "verifier": "answer", "gold": ["09"], "parameters": {},
           "answer_tool": True, "temperature": 0.7, "max_new_tokens": 5}  # fmt: skip
    with serving(tmp_path, "--verifiers", "answer") as service:
        attempt = attempts(lambda: server, lambda: chat, service.url)
        found = asyncio.run(attempt(row))
    assert found == Attempt(1.0, len(server.ids), True, (3, 4))
    asked = server.asked["sampling_params"]
    assert (asked["temperature"], asked["max_tokens"]) == (0.7, 5)
    assert asked["stop_token_ids"] == chat.stop_ids
