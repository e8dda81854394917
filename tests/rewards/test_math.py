"""Answers of every kind, each against what says the same and what nearly does."""

import json
from pathlib import Path
from typing import Any

import pytest

from rewards.schema import Item, Verdict
from rewards.verifiers.math import verify

PAIRS = Path(__file__).parent / "pairs"


def rows(name: str) -> list[Any]:
    """The rows of a table: see the tests for their fields."""
    found = [json.loads(line) for line in (PAIRS / name).read_text().splitlines()]
    return [
        pytest.param(row, id=f"{number}-{row.get('kind', 'response')}")
        for number, row in enumerate(found, 1)
    ]


def judged(gold: Any, **fields: Any) -> Verdict:
    return verify(Item(id="i", verifier="math", gold=gold, **fields))


def score(gold: Any, answer: str) -> float | None:
    return judged(gold, answers=[answer]).score


@pytest.mark.parametrize("row", rows("math.jsonl"))
def test_kinds(row: dict[str, Any]) -> None:
    """`equal` says what `gold` says, `other` does not."""
    assert [answer for answer in row["equal"] if score(row["gold"], answer) != 1.0] == []
    assert [answer for answer in row["other"] if score(row["gold"], answer) != 0.0] == []


@pytest.mark.parametrize("row", rows("responses.jsonl"))
def test_where_an_answer_stands(row: dict[str, Any]) -> None:
    assert judged(row["gold"], response=row["response"]).score == row["score"]


def test_any_gold_will_do_but_every_answer_must() -> None:
    assert judged(["4", "5"], answers=["5"]).score == 1.0
    assert judged("4", answers=["4", r"\frac{8}{2}"]).score == 1.0
    assert judged("4", answers=["4", "5"]).score == 0.0
    assert judged("4", answers=[]).reason == "no_answer"


@pytest.mark.parametrize("gold", ["", [], 4, None, {"any_of": ["4"]}, "??", ["4", ""]])
def test_a_gold_that_cannot_be_read_is_no_score(gold: Any) -> None:
    verdict = judged(gold, answers=["4"])
    assert (verdict.status, verdict.reason) == ("abstained", "bad_gold")


@pytest.mark.parametrize(
    ("gold", "detail"),
    [
        (None, "gold is missing"),
        (4, "gold is the number 4; write it as text"),
        (["4", 5], "gold.1: Input should be a valid string"),
    ],
)
def test_what_is_wrong_with_a_gold_is_named(gold: Any, detail: str) -> None:
    assert judged(gold, answers=["4"]).detail == detail


def test_parameters_are_refused() -> None:
    verdict = judged("4", answers=["4"], parameters={"tolerance": 1})
    assert (verdict.status, verdict.reason) == ("abstained", "bad_item")
    assert verdict.detail == "tolerance: unknown; there are none"


@pytest.mark.parametrize(
    ("gold", "answer", "reason"),
    [
        ("7", "8", "mismatch"),
        (r"7\text{ cm}", r"8\text{ kg}", "unit"),
        ("7", r"\oops", "unreadable"),
        ("7", "10^{10^{10}}", "too_costly"),
        ("7", " ", "no_answer"),
    ],
)
def test_feedback_is_one_line_without_the_gold(gold: str, answer: str, reason: str) -> None:
    verdict = judged(gold, answers=[answer])
    assert verdict.reason == reason
    assert verdict.feedback
    assert "\n" not in verdict.feedback
    assert "7" not in verdict.feedback


def test_long_answers_are_told_short() -> None:
    verdict = judged("4", answers=["x + " * 1000 + "\n1"])
    assert verdict.feedback is not None
    assert len(verdict.feedback) < 200
