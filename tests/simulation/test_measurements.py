"""Times in a plan: simulated or counted from what a recipe measured, and never made up."""

from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from posttrain import expectations
from posttrain.plan import Plan, resolve
from posttrain.recipe import load
from posttrain.simulation.measurements import OTHER, RL, Measured, expected, settings_of
from posttrain.simulation.outcome import simulate
from posttrain.simulation.sizing import best_split, shortened
from posttrain.store import Store

CONFIG: dict[str, Any] = {
    "steps": 100, "group": 4, "prompts_per_step": 16, "staleness": 1, "rule": "drop",
    "placement": {
        "trainer": {"nodes": 1, "per_node": 4},
        "rollout": {"nodes": 1, "per_node": 4, "tensor_parallel": 2},
    },
}  # fmt: skip
FIGURES: dict[str, Any] = {
    "length_tokens": {"median": 600, "p99": 3800, "most": 4096},
    "decode": {"seconds": 0.006, "seconds_per_sequence": 0.00003},
    "slots_per_replica": 64, "trainer_step_seconds": 10, "sync_seconds": 2,
    "reward": {"latency_seconds": 0.3},
}  # fmt: skip


def measured(**changes: Any) -> Measured:
    given = {"source": "a run", **FIGURES, **changes}
    return Measured.model_validate({key: each for key, each in given.items() if each is not None})


@given(st.sets(st.sampled_from(RL)))
def test_what_is_missing_is_named_and_nothing_else_is_said(left_out: set[str]) -> None:
    if not left_out:
        return
    found = expected("rl", CONFIG, measured(**dict.fromkeys(left_out)))
    assert set(found.missing) == left_out
    assert not found.figures
    names = ", ".join(each for each in RL if each in left_out)
    assert list(found.told()) == [f"time unknown: `measured` does not say {names}"]


@pytest.mark.parametrize(
    ("rule", "window", "named"),
    [
        ("drop", None, "verl-drop 1"),
        ("wait", None, "verl-wait 1"),
        ("windowed", 8, "windowed 1 (8)"),
    ],
)
def test_an_rl_stage_is_simulated_by_its_own_rule(rule: str, window: int, named: str) -> None:
    config = {**CONFIG, "rule": rule, "window": window}
    made = settings_of(config, measured())
    (used,) = made.rules
    alone = simulate(shortened(made), used)
    assert alone.rule == named
    figures = expected("rl", config, measured()).figures
    assert figures["step_seconds"] == alone.step_seconds
    assert figures["hours"] == pytest.approx(alone.step_seconds * 100 / 3600)
    assert figures["accelerator_hours"] == pytest.approx(8 * figures["hours"])
    assert figures["best_split"] == best_split(made, used)
    assert figures["reward_replicas"] >= 1
    assert made.rollout.per_replica == 2


def test_any_other_stage_is_counted() -> None:
    told = measured(step_seconds=36, accelerators=10)
    figures = expected("sft", {"steps": 200}, told).figures
    assert figures == {"hours": pytest.approx(2), "accelerator_hours": pytest.approx(20)}
    assert list(expected("sft", {"steps": 200}, told).told()) == [
        "2.0 h, 20 accelerator-hours (from a run)"
    ]
    assert expected("sft", {"steps": 200}, None).missing == OTHER


def planned(path: Path, folder: Path, *changes: str) -> Plan:
    return resolve(load(path, changes), Store(folder))


@pytest.mark.parametrize("size", ["8b", "70b"])
def test_gpu_recipes_name_what_nobody_measured(size: str, tmp_path: Path) -> None:
    found = expectations.of(planned(Path(f"recipes/apertus-1.5-{size}.yaml"), tmp_path))
    assert found["rl"].missing == RL
    assert found["sft"].missing == OTHER
    assert not any(each.figures for each in found.values())


def test_measurements_change_no_key_and_name_a_stage(tmp_path: Path) -> None:
    recipe = Path("recipes/apertus-1.5-8b.yaml")
    before = planned(recipe, tmp_path)
    change = "measured.sft={source: a run, step_seconds: 3, accelerators: 64}"
    after = planned(recipe, tmp_path, change)
    assert {n.name: n.key for n in before.nodes.values()} == {
        n.name: n.key for n in after.nodes.values()
    }
    assert expectations.of(after)["sft"].figures["accelerator_hours"] == pytest.approx(
        38036 * 3 * 64 / 3600
    )
    with pytest.raises(
        ValueError, match=r"--set measured.sftt: measured.sftt is no stage; did you"
    ):
        planned(recipe, tmp_path, change.replace("sft=", "sftt="))
    with pytest.raises(ValueError, match=r"measured.sft.source is missing"):
        planned(recipe, tmp_path, "measured.sft={step_seconds: 3}")
