"""Gates decide on figures that are there; aliases move only past them."""

import multiprocessing
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from posttrain.gates import Equivalence, Finding, Promotion, Threshold, findings, judge
from posttrain.registry import Refused, Registry
from posttrain.store import Artifact, Store

GOOD = [Finding("equivalence", True, "all digests equal")]


def figures(**accuracy: float) -> dict[tuple[str, str], dict[str, float]]:
    return {(stage, "answers"): {"accuracy": value} for stage, value in accuracy.items()}


@pytest.mark.parametrize(
    ("bar", "measured", "passes"),
    [
        ({"against": "sft", "superior_by": "10 points"}, {"rl": 0.70, "sft": 0.60}, True),
        ({"against": "sft", "superior_by": "10 points"}, {"rl": 0.69, "sft": 0.60}, False),
        ({"against": "sft", "not_worse_than": "5 points"}, {"rl": 0.55, "sft": 0.60}, True),
        ({"against": "sft", "not_worse_than": "5 points"}, {"rl": 0.54, "sft": 0.60}, False),
        ({"at_least": "70%"}, {"rl": 0.70}, True),
        ({"at_least": "70%"}, {"rl": 0.699}, False),
    ],
)
def test_a_threshold_is_judged(
    bar: dict[str, str], measured: dict[str, float], passes: bool
) -> None:
    gate = Threshold.model_validate({"suite": "answers", **bar})
    assert judge(gate, "rl", figures(**measured)).passed is passes


@pytest.mark.parametrize("measured", [{}, {"rl": 0.9}, {"sft": 0.1}])
def test_what_was_not_measured_refuses(measured: dict[str, float]) -> None:
    gate = Threshold(suite="answers", against="sft", superior_by="1 points")  # type: ignore[arg-type]
    finding = judge(gate, "rl", figures(**measured))
    assert not finding.passed
    assert "was not measured" in finding.figures


@given(st.floats(0, 1), st.floats(0, 1), st.floats(0, 1))
def test_superior_by_implies_not_worse_than(after: float, before: float, bar: float) -> None:
    measured = figures(rl=after, sft=before)
    better = Threshold(suite="answers", against="sft", superior_by=f"{bar * 100:.6f} points")  # type: ignore[arg-type]
    kept = Threshold(suite="answers", against="sft", not_worse_than="0 points")  # type: ignore[arg-type]
    if judge(better, "rl", measured).passed:
        assert judge(kept, "rl", measured).passed


@pytest.mark.parametrize(
    "wrong",
    [
        {"suite": "answers"},
        {"suite": "answers", "superior_by": "1 points"},
        {"suite": "answers", "at_least": "50%", "against": "sft"},
        {"suite": "answers", "at_least": "50%", "superior_by": "1 points", "against": "sft"},
        {"suite": "answers", "against": "sft", "superior_by": 10},
    ],
)
def test_an_ambiguous_gate_is_refused(wrong: dict[str, object]) -> None:
    with pytest.raises(ValidationError):
        Threshold.model_validate(wrong)


def test_equivalence_says_what_differs() -> None:
    promotion = Promotion.model_validate({"checkpoint": "rl", "to": "c", "gates": ["equivalence"]})
    assert promotion.gates == (Equivalence(),)
    assert findings(promotion, {}, lambda: None)[0].passed
    refused = findings(promotion, {}, lambda: "tokenizer differs")[0]
    assert (refused.passed, refused.figures) == (False, "tokenizer differs")


def checkpoint(store: Store, number: int, kind: str = "sft") -> Artifact:
    draft = store.draft("r", "s", f"{kind}{number}")
    (draft.output / "w").write_text(str(number))
    return store.commit(draft, kind=kind, identity={}, inputs={}, metrics={}, facts={})


def test_promote_moves_once_and_rollback_returns(store: Store) -> None:
    registry = Registry(store)
    one, two = checkpoint(store, 1), checkpoint(store, 2)
    assert registry.promote(one, "candidate", GOOD)
    assert not registry.promote(one, "candidate", GOOD)
    assert registry.promote(two, "candidate", GOOD)
    assert registry.aliases() == {"candidate": two.address}
    assert registry.rollback("candidate") == (two.address, one.address)
    assert registry.aliases() == {"candidate": one.address}
    assert [move["event"] for move in registry.history("candidate")] == [
        "promote", "promote", "rollback",
    ]  # fmt: skip


def test_rollback_without_an_earlier_checkpoint_is_refused(store: Store) -> None:
    registry = Registry(store)
    registry.promote(checkpoint(store, 1), "candidate", GOOD)
    with pytest.raises(ValueError, match="no earlier checkpoint"):
        registry.rollback("candidate")


@pytest.mark.parametrize("found", [[], [*GOOD, Finding("answers", False, "0.1 < 0.2")]])
def test_an_alias_moves_only_past_gates_that_all_hold(store: Store, found: list[Finding]) -> None:
    registry = Registry(store)
    with pytest.raises(Refused, match="may not become candidate"):
        registry.promote(checkpoint(store, 1), "candidate", found)
    assert registry.aliases() == {}


def test_only_checkpoints_can_be_promoted(store: Store) -> None:
    with pytest.raises(ValueError, match="no checkpoint"):
        Registry(store).promote(checkpoint(store, 1, "data"), "candidate", GOOD)


def _promote(root: Path, address: str) -> None:
    place = Store(root)
    Registry(place).promote(place.get(address), "candidate", GOOD)


def test_concurrent_promotions_leave_a_whole_history(store: Store) -> None:
    made = [checkpoint(store, number) for number in range(6)]
    spawn = multiprocessing.get_context("spawn")
    movers = [spawn.Process(target=_promote, args=(store.root, one.address)) for one in made]
    for mover in movers:
        mover.start()
    for mover in movers:
        mover.join(60)
        assert mover.exitcode == 0
    history = Registry(store).history("candidate")
    assert sorted(move["to"] for move in history) == sorted(one.address for one in made)
    assert Registry(store).aliases()["candidate"] == history[-1]["to"]
