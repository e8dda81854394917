import random
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import pytest

from posttrain.data.turn import AssistantTurn
from posttrain.judging.calibration import calibrate, responses, shortfalls
from posttrain.judging.opinions import Opinion

GOOD = "Mia lives in Bern. She has two brothers and a dog, and she sings."
ROWS = [
    {"messages": [{"role": "user", "content": "Who?"}, {"role": "assistant", "content": GOOD}]}
] * 4  # fmt: skip


class Grader:
    """A judge that grades by a function of the text."""

    def __init__(self, grade: Callable[[str], float | None]) -> None:
        self._grade = grade

    def opinions(
        self, rows: Sequence[Mapping[str, Any]], turns: Sequence[AssistantTurn]
    ) -> list[Opinion]:
        grades = [self._grade(turn.content or "") for turn in turns]
        return [
            Opinion(each, grade=each, fault="" if each is not None else "down") for each in grades
        ]


def _ranked() -> Callable[[str], float]:
    """Knows the rungs: it saw them grow."""
    ladders: dict[str, float] = {}
    from posttrain.judging.ladder import ladder

    draw = random.Random("ladders 0")
    for _ in ROWS:
        for rung, text in enumerate(ladder(GOOD, 4, draw)):
            ladders[text] = 1 - rung / 10
    return lambda text: ladders.get(text, 0.5)


def test_a_judge_that_knows_the_order_agrees_with_it() -> None:
    found = calibrate(Grader(_ranked()), ROWS, 4, 0)
    assert found["spearman"] == found["kendall"] == pytest.approx(1)
    assert (found["consistency"], found["ladders"]) == (1, 4)


def test_a_judge_that_likes_everything_agrees_with_nothing() -> None:
    found = calibrate(Grader(lambda text: 1.0), ROWS, 4, 0)
    assert (found["spearman"], found["kendall"], found["consistency"]) == (0, 0, 1)


def test_a_judge_in_two_minds_is_inconsistent() -> None:
    draw = random.Random(0)
    found = calibrate(Grader(lambda text: draw.random()), ROWS, 4, 0)
    assert found["consistency"] < 0.9
    assert found["spearman"] < 0.8


def test_a_judge_that_reads_the_start_alone_has_a_bias() -> None:
    found = calibrate(Grader(lambda text: float(text.startswith("Mia"))), ROWS, 4, 0)
    assert found["position_bias"] == 1


def test_a_response_that_was_not_judged_stops_it() -> None:
    with pytest.raises(RuntimeError, match="20 of 20 responses were not judged: down"):
        calibrate(Grader(lambda text: None), ROWS, 4, 0)


def test_rows_must_end_with_what_an_assistant_says() -> None:
    asked = {"messages": [{"role": "user", "content": "Who?"}]}
    with pytest.raises(ValueError, match="row 2 does not end"):
        list(responses([ROWS[0], asked]))
    with pytest.raises(ValueError, match="no dialogues"):
        calibrate(Grader(lambda text: 1.0), [], 4, 0)


def test_what_is_required_and_lacking_is_told() -> None:
    figures = {"spearman": 0.5, "kendall": float("nan"), "consistency": 0.9}
    assert shortfalls(figures, {"spearman": 0.4, "kendall": 0.1, "consistency": 0.95}) == [
        "kendall is nan, required is 0.10", "consistency is 0.90, required is 0.95",
    ]  # fmt: skip
