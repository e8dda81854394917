"""Composite items: what their verdict is, whatever their checks find."""

import math
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rewards.combination import combination, combined, expanded
from rewards.schema import Check, Combination, Composite, Entry, Item, Verdict, abstained, failed
from rewards.schema import scored as score
from tests.rewards.service import Service

SCORES = st.lists(st.floats(0, 1), min_size=1, max_size=5)
COMBINATIONS = st.sampled_from(("mean", "min", "product", "all"))


def composite(count: int, combine: Combination = "mean", *weights: float) -> Composite:
    names = [f"v{n}" for n in range(count)]
    given = weights or [1.0] * count
    checks = [Check(verifier=name, weight=w) for name, w in zip(names, given, strict=True)]
    return Composite(id="c", response="r", checks=checks, combine=combine)


def verdicts(whole: Composite, scores: list[float]) -> list[Verdict]:
    return [score(item, s) for item, s in zip(expanded([whole]), scores, strict=True)]


@given(SCORES, COMBINATIONS)
def test_the_score_lies_between_its_parts(scores: list[float], combine: Combination) -> None:
    whole = composite(len(scores), combine)
    verdict = combination(whole, verdicts(whole, scores))
    assert verdict.status == "scored"
    assert verdict.score is not None
    assert 0.0 <= verdict.score <= max(scores)
    assert (verdict.score == 1.0) == (min(scores) == 1.0) or combine == "mean"
    assert verdict.parts == {f"v{n}": s for n, s in enumerate(scores)}


@given(SCORES)
def test_the_rules_are_in_order(scores: list[float]) -> None:
    by_rule: dict[Combination, float] = {}
    for rule in ("all", "product", "min", "mean"):
        whole = composite(len(scores), rule)
        by_rule[rule] = combination(whole, verdicts(whole, scores)).score or 0.0
    assert by_rule["all"] <= by_rule["product"] <= by_rule["min"]
    assert by_rule["min"] <= by_rule["mean"] or math.isclose(by_rule["min"], by_rule["mean"])


@given(st.lists(st.tuples(st.floats(0, 1), st.floats(1e-3, 1e6)), min_size=1, max_size=5))
def test_weights_are_shares_of_the_mean(pairs: list[tuple[float, float]]) -> None:
    whole = composite(len(pairs), "mean", *(weight for _, weight in pairs))
    verdict = combination(whole, verdicts(whole, [s for s, _ in pairs]))
    mean = sum(s * w for s, w in pairs) / sum(w for _, w in pairs)
    assert verdict.score == pytest.approx(mean, abs=1e-9)


@given(SCORES, COMBINATIONS, st.data())
def test_what_is_not_known_is_no_score(
    scores: list[float], combine: Combination, data: st.DataObject
) -> None:
    whole = composite(len(scores), combine)
    items, parts = expanded([whole]), verdicts(whole, scores)
    at = data.draw(st.integers(0, len(scores) - 1))
    parts[at] = abstained(items[at], "bad_gold", "why")
    verdict = combination(whole, parts)
    assert (verdict.status, verdict.score, verdict.reason) == ("abstained", None, "bad_gold")
    assert verdict.detail == f"v{at}: why"
    other = data.draw(st.integers(0, len(scores) - 1))
    parts[other] = failed(items[other], "crash", "how")
    verdict = combination(whole, parts)
    assert (verdict.status, verdict.score, verdict.reason) == ("failed", None, "crash")


def test_who_is_blamed_is_told_and_feedback_is_joined() -> None:
    whole = composite(3, "mean")
    first, second, third = expanded([whole])
    parts = [
        score(first, 0.0, "mismatch", feedback="Check the sum."),
        score(second, 0.0, "unverifiable"),
        score(third, 1.0, feedback="Well written."),
    ]
    verdict = combination(whole, parts)
    assert (verdict.reason, verdict.feedback) == ("unverifiable", "Check the sum. Well written.")


@given(st.lists(st.none() | SCORES, max_size=5))
def test_each_entry_gets_its_own(shapes: list[list[float] | None]) -> None:
    entries: list[Entry] = [
        Item(id=str(n), verifier="v", response="r")
        if scores is None
        else composite(len(scores), "min").model_copy(update={"id": str(n)})
        for n, scores in enumerate(shapes)
    ]
    given = iter(s for scores in shapes for s in scores or [0.5])
    found = combined(entries, [score(item, next(given)) for item in expanded(entries)])
    assert [verdict.id for verdict in found] == [entry.id for entry in entries]
    assert [verdict.score for verdict in found] == [min(scores or [0.5]) for scores in shapes]


def test_composites_are_served_beside_single_items(service: Service) -> None:
    single: dict[str, Any] = {"id": "s", "verifier": "answer", "answers": ["1/2"], "gold": ["1/2"]}
    checks = [{"verifier": "answer", "gold": ["0.5"]}, {"verifier": "math", "gold": "0.5"}]
    whole = {"id": "c", "answers": ["1/2"], "checks": checks}
    unknown = {"id": "u", "answers": ["1/2"], "checks": [*checks, {"verifier": "oracle"}]}
    found = service.score(single, whole, {**whole, "id": "m", "combine": "min"}, unknown)
    assert [(v["id"], v["score"]) for v in found] == [("s", 1), ("c", 0.5), ("m", 0), ("u", None)]
    assert found[1]["parts"] == {"answer": 0.0, "math": 1.0}
    assert (found[3]["status"], found[3]["reason"]) == ("abstained", "unknown_verifier")
