"""Suites by the verifier of each prompt: figures over all rows, and no fault that counts."""

from collections.abc import Mapping, Sequence
from typing import Any

import pytest
from pydantic import ValidationError

from posttrain.data import manners
from posttrain.evaluation.suites import Verified
from posttrain.evaluation.verified import evaluate
from rewards.schema import Item, failed
from rewards.verifiers import constraints
from tests.evaluation.tiny_model import chat_format, model

SUITE = Verified(kind="verified", data="p.holdout", max_new_tokens=5)
ANYTHING = {"instruction_id": ["punctuation:no_comma"], "kwargs": [{}]}
NOTHING = {"instruction_id": ["keywords:existence"], "kwargs": [{"keywords": ["moss"]}]}


def rows(count: int) -> list[dict[str, Any]]:
    """Prompts of two tasks: one that hardly any response fails, one that none solves."""
    asked = manners.requests(0, count, "usual")
    return [
        row | {"verifier": "constraints", "parameters": {}, "task": task, "gold": gold}
        for number, row in enumerate(asked)
        for task, gold in [("easy", ANYTHING) if number % 2 else ("hard", NOTHING)]
    ]


def judge(asked: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    return [constraints.verify(Item.model_validate(each)).model_dump() for each in asked]


def test_each_prompt_is_scored_by_its_own_verifier_and_gold() -> None:
    kept: list[Any] = []
    found = evaluate(model(900), chat_format(), SUITE, rows(8), seed=1, judge=judge,
                     keep=kept.append)  # fmt: skip
    assert found["n"] == 8
    assert found["accuracy.hard"] == found["low.hard"] == 0
    assert found["accuracy"] == (found["accuracy.hard"] + found["accuracy.easy"]) / 2
    assert 0 <= found["complete"] <= 1
    assert 1 <= found["mean_length"] <= 5
    assert [len(each) for each in kept[0].attempts] == [1] * 8
    assert kept[0].groups == [["hard"], ["easy"]] * 4


def test_attempts_at_a_prompt_follow_one_another() -> None:
    seen: list[Any] = []

    def watched(asked: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
        seen.extend(asked)
        return judge(asked)

    suite = SUITE.model_copy(update={"attempts": 3, "temperature": 1.0})
    found = evaluate(model(900), chat_format(), suite, rows(2), seed=1, judge=watched)
    assert found["n"] == 6
    assert [each["gold"] for each in seen] == [NOTHING] * 3 + [ANYTHING] * 3


def test_what_ends_a_response_is_not_shown_to_the_verifier() -> None:
    chat = chat_format()
    ids = [*chat.encode("a1 b2"), chat.stop_ids[0]]
    assert chat.spoken(ids) == chat.spoken(ids[:-1]) == "a1 b2"
    assert chat.spoken([]) == ""


def test_a_response_that_was_not_judged_stops_the_measurement() -> None:
    def down(asked: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
        lost = [failed(Item.model_validate(each), "worker_lost", "gone") for each in asked]
        return [verdict.model_dump() for verdict in lost]

    with pytest.raises(RuntimeError, match="4 of 4 responses were not judged: constraints: worker"):
        evaluate(model(900), chat_format(), SUITE, rows(4), seed=1, judge=down)


def test_equal_attempts_are_refused() -> None:
    with pytest.raises(ValidationError, match="set temperature"):
        Verified(kind="verified", data="p.holdout", attempts=4)
