"""Figures: what is counted, over what, and what stops a measurement."""

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest
import torch

from posttrain.data import tiny
from posttrain.data.documents import render_document
from posttrain.data.longcontext.probes import Probes, probes
from posttrain.data.turn import AssistantTurn, ToolCall
from posttrain.evaluation.measuring import (
    GROUPS,
    Attempt,
    bounds,
    evaluate,
    figures,
    judged,
    read_rows,
    respond,
)
from posttrain.evaluation.suites import Answers, Continuation, LongContext, Needles
from rewards.wilson import interval
from tests.evaluation.tiny_model import chat_format, model

CHAT = chat_format()
MODEL = model(len(CHAT.tokenizer))
SUITE = Answers(kind="answers", data="prompts.holdout", max_new_tokens=12)
PROMPTS = tiny.prompts(0, 6, 1.0, holdout=True)


def exact(items: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """Verdicts of a judge that compares text."""
    return [
        {"id": item["id"], "status": "scored", "score": float(item["answers"] == item["gold"])}
        for item in items
    ]


def answered(row: dict[str, Any], *given: str, thoughts: str | None = None) -> Attempt:
    call = ToolCall("display_answers", {"answers": list(given)})
    return Attempt(row, AssistantTurn(thoughts, (call,), complete=True), 6)


def silent(row: dict[str, Any]) -> Attempt:
    return Attempt(row, AssistantTurn(content="so", error="the turn does not end"), 12)


def test_scores_come_from_the_judge_and_no_answer_is_wrong() -> None:
    asked: list[Mapping[str, Any]] = []

    def judge(items: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
        asked.extend(items)
        return exact(items)[::-1]

    right, wrong, none = PROMPTS[:3]
    attempts = [answered(right, *right["gold"]), silent(none), answered(wrong, "99")]
    assert judged(attempts, judge) == [1.0, 0.0, 0.0]
    assert [item["id"] for item in asked] == ["0", "2"]
    assert asked[0]["verifier"] == "answer"


@pytest.mark.parametrize("status", ["failed", "abstained"])
def test_what_was_not_judged_stops_the_measurement(status: str) -> None:
    def judge(items: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
        return [{"id": item["id"], "status": status, "reason": "overloaded"} for item in items]

    with pytest.raises(RuntimeError, match="1 of 1 answers were not scored: overloaded"):
        judged([answered(PROMPTS[0], "09"), silent(PROMPTS[1])], judge)
    with pytest.raises(RuntimeError, match="no verdict came back"):
        judged([answered(PROMPTS[0], "09")], lambda items: [])


def test_figures_count_attempts_and_prompts() -> None:
    first, second = ({"task": task, "tools": [tiny.ANSWER_TOOL]} for task in ("sum", "max"))
    attempts = [answered(first, "1", thoughts="hm"), answered(first, "1"), silent(second)]
    attempts.append(answered(second, "1"))
    assert figures(attempts, [1.0, 0.0, 0.0, 0.0], GROUPS["answers"]) == {
        "accuracy": 0.25,
        "standard_error": 0.25,  # prompt means .5 and 0: deviation .3536 over the root of 2
        "n": 4.0,
        "format_rate": 0.75,
        "thinking_rate": 0.25,
        "mean_length": 7.5,
        "accuracy.max": 0.0,
        "accuracy.sum": 0.5,
    }


def test_answers_are_sampled_attempts_times() -> None:
    suite = SUITE.model_copy(update={"attempts": 3, "temperature": 1.0})
    attempts = respond(MODEL, CHAT, suite, PROMPTS, seed=1)
    assert [attempt.row for attempt in attempts] == [row for row in PROMPTS for _ in range(3)]
    found = evaluate(MODEL, CHAT, suite, PROMPTS, seed=1, judge=exact)
    assert found["n"] == 18
    assert found["mean_length"] == sum(attempt.length for attempt in attempts) / 18
    assert found == evaluate(MODEL, CHAT, suite, PROMPTS, seed=1, judge=exact)


def test_needles_are_told_apart_by_length() -> None:
    suite = Needles(kind="needles", data="needles.holdout", max_new_tokens=4)
    found = evaluate(MODEL, CHAT, suite, tiny.needles(0, 4, (64, 128)), seed=0, judge=exact)
    assert {name for name in found if name.startswith("accuracy.")} == {
        "accuracy.64",
        "accuracy.128",
    }
    assert found["low.64"] <= found["accuracy.64"] <= found["high.64"]


def test_probes_are_told_apart_by_length_and_task_with_intervals() -> None:
    rows = [
        {"task": task, "length": length, "tools": [tiny.ANSWER_TOOL]}
        for task in ("needle", "multi_key")
        for length in (512, 4096)
    ]
    attempts = [answered(row, "1") for row in rows for _ in range(10)]
    scores = [1.0] * 10 + [1.0] * 3 + [0.0] * 7 + [1.0] * 10 + [0.0] * 10
    found = figures(attempts, scores, GROUPS["long_context"])
    assert (found["accuracy.512"], found["accuracy.4096"]) == (1.0, 0.15)
    assert found["accuracy.needle.4096"] == 0.3
    assert found["accuracy.multi_key"] == 0.5
    limits = bounds(attempts, scores, GROUPS["long_context"])
    assert (limits["low.needle.4096"], limits["high.needle.4096"]) == interval(3, 10)
    assert (limits["low.512"], limits["high.512"]) == interval(20, 20)
    assert len(limits) == 2 * len([name for name in found if name.startswith("accuracy.")])


def test_without_the_tool_the_text_is_the_answer() -> None:
    row = {"tools": [], "verifier": "answer", "gold": ["12", "7"]}
    said = [
        AssistantTurn(content=" 12, 7.", complete=True),
        AssistantTurn(content="12,70", complete=True),
        AssistantTurn(content="12, 7", error="the turn does not end"),
        AssistantTurn(complete=True),
    ]
    attempts = [Attempt(row, turn, 5) for turn in said]
    assert [attempt.answers for attempt in attempts] == [["12", "7"], ["12", "70"], None, None]
    assert judged(attempts, exact) == [1.0, 0.0, 0.0, 0.0]


def test_a_model_is_measured_on_probes() -> None:
    suite = LongContext(kind="long_context", data="probes.holdout", max_new_tokens=4)
    asked = Probes(tokenizer="t", rows=1, lengths=(600, 1200), tasks=("needle", "section_order"))
    found = evaluate(MODEL, CHAT, suite, probes(CHAT, asked, 0), seed=0, judge=exact)
    assert found["n"] == 4
    assert {"accuracy.600", "high.1200", "low.section_order.600"} <= found.keys()


def test_a_continuation_is_right_if_generating_it_would_reproduce_it() -> None:
    suite = Continuation(kind="continuation", data="corpus.holdout")
    taught, rest = tiny.chains(0, 2)
    rendered = render_document(CHAT, taught)  # type: ignore[arg-type]
    pupil = model(len(CHAT.tokenizer))
    optimizer = torch.optim.AdamW(pupil.parameters(), lr=5e-3)
    labels = torch.tensor([rendered.ids]).masked_fill(torch.tensor([rendered.mask]) == 0, -100)
    assert evaluate(pupil, CHAT, suite, [taught, rest], seed=0)["accuracy"] == 0.0
    for _ in range(60):
        pupil(torch.tensor([rendered.ids]), labels=labels).loss.backward()
        optimizer.step()
        optimizer.zero_grad()
    found = evaluate(pupil, CHAT, suite, [taught, rest], seed=0)
    assert found == {"accuracy": 0.5, "standard_error": 0.5, "n": 2.0}


def test_rows_of_another_verifier_or_none_are_refused(tmp_path: Path) -> None:
    lines = [json.dumps(row) for row in tiny.formulas(0, 2, 1.0, holdout=True)]
    (tmp_path / "holdout.jsonl").write_text("\n".join(lines) + "\n")
    with pytest.raises(ValueError, match="row 1 is for verifier 'math'"):
        read_rows(SUITE, tmp_path)
    rows = read_rows(SUITE.model_copy(update={"verifier": "math"}), tmp_path)
    assert [row["task"] for row in rows] == ["formula", "formula"]
    with pytest.raises(ValueError, match="has 1 rows, too few"):
        evaluate(MODEL, CHAT, SUITE, rows[:1], seed=0, judge=exact)
