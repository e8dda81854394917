"""Gates decide on evidence that is there, prompt by prompt, and say what it was."""

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic import ValidationError

from posttrain.gates import (
    Equivalence,
    Evidence,
    Finding,
    HumanReview,
    Promotion,
    Scores,
    Statistics,
    Threshold,
    findings,
    refusals,
)
from posttrain.gates.planning import visible_gain, visible_loss


def scores(right: int, of: int, digest: str = "d", groups: int = 0) -> Scores:
    """The first `right` prompts are right; they belong to `groups` groups in turn."""
    names = [[f"g{n % groups}"] if groups else [] for n in range(of)]
    return Scores([[float(n < right)] for n in range(of)], names, digest)


def judged(gate: dict[str, Any], **measured: Scores) -> Finding:
    return both(gate, **measured)[0]


def both(gate: dict[str, Any], **measured: Scores) -> list[Finding]:
    promotion = Promotion.model_validate(
        {"checkpoint": "rl", "to": "c", "gates": [{"suite": "answers", **gate}]}
    )
    kept = {(stage, "answers"): found for stage, found in measured.items()}
    return findings(promotion, Evidence(scores=kept))


@pytest.mark.parametrize(
    ("bar", "before", "after", "passes"),
    [
        ({"superior_by": "10 points"}, 100, 160, True),
        ({"superior_by": "10 points"}, 100, 122, False),  # More by 11 points: it may be chance.
        ({"not_worse_than": "5 points"}, 100, 100, True),
        ({"not_worse_than": "5 points"}, 100, 92, False),
        ({"superior_by": "0 points", "expected": "5 points"}, 100, 106, True),
        ({"superior_by": "0 points", "expected": "5 points"}, 100, 105, False),
    ],
)
def test_a_gain_is_shown_beyond_chance(
    bar: dict[str, str], before: int, after: int, passes: bool
) -> None:
    found = judged({"against": "sft", **bar}, rl=scores(after, 200), sft=scores(before, 200))
    assert found.passed is passes, found.figures
    assert found.measured["prompts"] == 200


def test_a_bar_on_the_figure_itself() -> None:
    promotion = Promotion.model_validate(
        {"checkpoint": "rl", "to": "c", "gates": [{"suite": "answers", "at_least": "70%"}]}
    )
    for value, passes in ((0.7, True), (0.699, False)):
        evidence = Evidence(figures={("rl", "answers"): {"accuracy": value}})
        assert findings(promotion, evidence)[0].passed is passes
    assert "was not measured" in findings(promotion, Evidence())[0].figures


@pytest.mark.parametrize("measured", [{}, {"rl": scores(9, 9)}, {"sft": scores(1, 9)}])
def test_what_was_not_measured_refuses(measured: dict[str, Scores]) -> None:
    found = judged({"against": "sft", "superior_by": "1 points"}, **measured)
    assert not found.passed
    assert "was not measured" in found.figures


def test_scores_of_other_prompts_are_not_compared() -> None:
    gate = {"against": "sft", "superior_by": "1 points"}
    for other in (scores(0, 200, "other"), scores(0, 199)):
        found = judged(gate, rl=scores(200, 200), sft=other)
        assert (found.passed, found.figures) == (
            False, "the two were measured on different prompts",
        )  # fmt: skip


def test_a_gate_that_pins_a_suite_takes_no_other() -> None:
    gate = {"against": "sft", "superior_by": "1 points", "digest": "a" * 12}
    right, wrong = "a" * 64, "b" * 64
    pinned = judged(gate, rl=scores(99, 99, right), sft=scores(0, 99, right))
    assert pinned.passed
    found = judged(gate, rl=scores(99, 99, wrong), sft=scores(0, 99, wrong))
    assert "the gate pins aaaaaaaaaaaa" in found.figures


def test_the_test_is_chosen_by_the_scores_or_stated() -> None:
    gate = {"against": "sft", "not_worse_than": "20 points"}
    once = judged(gate, rl=scores(50, 99), sft=scores(50, 99))
    assert once.measured["test"] == "mcnemar"
    tried = Scores([[1.0, 0.0]] * 99, [[]] * 99, "d")
    assert judged(gate, rl=tried, sft=tried).measured["test"] == "bootstrap"
    found = judged({**gate, "test": "mcnemar"}, rl=tried, sft=tried)
    assert "state test: bootstrap" in found.figures


def test_a_mean_does_not_hide_a_lost_group() -> None:
    gate = {"against": "sft", "not_worse_than": "15 points", "groups_not_worse_than": "15 points"}
    names = [[f"g{n % 4}"] for n in range(400)]
    before = Scores([[float(n % 2)] for n in range(400)], names, "d")
    lost = [[0.0] if n % 4 == 3 else [1.0] if n % 4 == 0 else [float(n % 2)] for n in range(400)]
    whole, groups = both(gate, rl=Scores(lost, names, "d"), sft=before)
    assert whole.passed
    assert not groups.passed
    assert groups.figures.startswith("g3: 1.000 -> 0.000")
    assert all(found.passed for found in both(gate, rl=before, sft=before))


def test_a_group_that_is_too_small_to_tell_refuses() -> None:
    gate = {"against": "sft", "not_worse_than": "5 points", "groups_not_worse_than": "10 points"}
    same = scores(100, 200, groups=20)
    groups = both(gate, rl=same, sft=same)[1]
    assert not groups.passed
    assert "the smallest loss that 10 prompts can show" in groups.figures


def test_many_gates_share_the_error() -> None:
    gate = {"suite": "answers", "against": "sft", "not_worse_than": "5 points"}
    kept = {("rl", "answers"): scores(192, 400), ("sft", "answers"): scores(200, 400)}

    def passes(gates: int, correction: str) -> bool:
        promotion = Promotion.model_validate(
            {
                "checkpoint": "rl", "to": "c", "gates": [gate] * gates,
                "statistics": {"correction": correction, "error": "1%"},
            }
        )  # fmt: skip
        return all(found.passed for found in findings(promotion, Evidence(scores=kept)))

    assert [passes(1, "holm"), passes(9, "none"), passes(9, "holm")] == [True, True, False]


@settings(max_examples=25)
@given(st.integers(1, 60), st.integers(0, 60), st.sampled_from([0.05, 0.1, 0.3]))
def test_superior_by_implies_not_worse_than(before: int, after: int, bar: float) -> None:
    measured = {"rl": scores(after, 60), "sft": scores(before, 60)}
    better = judged({"against": "sft", "superior_by": f"{bar * 100:g} points"}, **measured)
    kept = judged({"against": "sft", "not_worse_than": f"{bar * 100:g} points"}, **measured)
    assert kept.passed or not better.passed


def test_a_waiver_lets_one_gate_pass_and_is_told() -> None:
    promotion = Promotion.model_validate(
        {
            "checkpoint": "rl", "to": "c",
            "gates": [{"suite": "answers", "at_least": "70%"}, "equivalence", "sign_off"],
        }
    )  # fmt: skip
    gates = ("answers.accuracy at least 70%", "equivalence", "sign_off")
    waived = dict.fromkeys(gates, "by ada until 2030-01-01: known")
    evidence = Evidence(figures={("rl", "answers"): {"accuracy": 0.1}}, waivers=waived)
    answers, equal, signed = findings(promotion, evidence)
    assert answers.passed
    assert answers.figures == "0.100 >= 0.700; waived by ada until 2030-01-01: known"
    assert not equal.passed  # What a checkpoint is, and whether a person said yes, stays open.
    assert not signed.passed


def test_equivalence_and_review_say_what_is_wrong() -> None:
    promotion = Promotion.model_validate(
        {"checkpoint": "rl", "to": "c", "gates": ["equivalence", "sign_off"]}
    )
    assert promotion.gates == (Equivalence(), HumanReview())
    assert Promotion.model_validate(promotion.model_dump()) == promotion
    holds = Evidence(equivalence=lambda: None, review=lambda: None)
    assert [found.passed for found in findings(promotion, holds)] == [True, True]
    fails = Evidence(equivalence=lambda: "tokenizer differs", review=lambda: "nobody has signed")
    assert [(found.passed, found.figures) for found in findings(promotion, fails)] == [
        (False, "tokenizer differs"), (False, "nobody has signed"),
    ]  # fmt: skip


@pytest.mark.parametrize(
    "wrong",
    [
        {},
        {"superior_by": "1 points"},
        {"at_least": "50%", "against": "sft"},
        {"at_least": "50%", "superior_by": "1 points", "against": "sft"},
        {"against": "sft", "superior_by": 10},
        {"against": "sft", "superior_by": "0 points"},
        {"against": "sft", "superior_by": "5 points", "expected": "5 points"},
        {"against": "sft", "superior_by": "5 points", "metric": "mean_length"},
        {"at_least": "50%", "test": "bootstrap"},
        {"against": "sft", "superior_by": "5 points", "test": "t"},
        {"against": "sft", "superior_by": "5 points", "digest": "xyz"},
    ],
)
def test_an_ambiguous_gate_is_refused(wrong: dict[str, object]) -> None:
    with pytest.raises(ValidationError):
        Threshold.model_validate({"suite": "answers", **wrong})


def test_the_smallest_visible_change_is_that_of_the_literature() -> None:
    for prompts, tenth, fifth in (
        (164, 6.9, 9.8),
        (500, 4.0, 5.6),
        (1319, 2.4, 3.4),
        (5000, 1.3, 1.8),
    ):
        for discordant, points in ((0.1, tenth), (0.2, fifth)):
            statistics = Statistics(discordant=discordant)
            gain = visible_gain(prompts, 0.0, statistics, 1)
            loss = visible_loss(prompts, statistics, 1)
            assert gain is not None
            assert loss is not None
            # Exact tests see a little less than the formula says: about one prompt's worth.
            for seen in (gain, loss):
                assert points / 100 - 0.002 <= seen <= points / 100 + 0.001 + 1 / prompts


def promoting(**gate: Any) -> Promotion:
    stated = {"suite": "answers", "against": "sft", **gate}
    return Promotion.model_validate({"checkpoint": "rl", "to": "c", "gates": [stated]})


def test_a_gate_that_cannot_see_its_margin_is_refused_with_what_it_could_see() -> None:
    narrow = promoting(not_worse_than="5 points")
    (line,) = refusals(narrow, lambda suite: 30)
    assert "cannot see its margin: the smallest loss that 30 prompts can show is" in line
    assert "not 5; take more prompts or a wider margin" in line
    assert list(refusals(narrow, lambda suite: 5000)) == []
    assert list(refusals(narrow, lambda suite: None)) == []
    (line,) = refusals(promoting(superior_by="2 points"), lambda suite: 300)
    assert "the smallest gain that 300 prompts can show" in line
    (line,) = refusals(promoting(superior_by="99 points"), lambda suite: 1)
    assert "does not exist" in line


def test_more_prompts_or_fewer_tests_never_show_less() -> None:
    statistics = Statistics()
    losses = [visible_loss(prompts, statistics, 1) or 1.0 for prompts in (50, 100, 200, 400, 800)]
    assert losses == sorted(losses, reverse=True)
    shared = [visible_loss(200, statistics, tests) or 1.0 for tests in (1, 2, 5, 20)]
    assert shared == sorted(shared)
