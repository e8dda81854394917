"""Frozen parts and work of another plan: both are compared, not trusted."""

from pathlib import Path

import pytest
import torch

from posttrain.training import checkpoint, freezing
from posttrain.training.resumption import same_plan
from posttrain.training.sft import Start


def test_frozen_parameters_are_excluded_and_compared(base: Start) -> None:
    model = checkpoint.load_model(base.path, base.facts)
    before = freezing.freeze(model, [r"model\.layers\.0\..*"])
    assert before
    assert all(name.startswith("model.layers.0.") for name in before)
    trained = {name for name, each in model.named_parameters() if each.requires_grad}
    assert not trained & before.keys()
    freezing.check(model, before)
    name = next(iter(before))
    with torch.no_grad():
        model.get_parameter(name).flatten()[0] += 1e-3
    with pytest.raises(RuntimeError, match=f"{name} was frozen"):
        freezing.check(model, before)


def test_patterns_that_say_nothing_are_refused(base: Start) -> None:
    model = checkpoint.load_model(base.path, base.facts)
    with pytest.raises(ValueError, match="matches no parameter"):
        freezing.freeze(model, ["layers"])
    with pytest.raises(ValueError, match="nothing is left to train"):
        freezing.freeze(model, [".*"])


PLAN = {"checkpoint": "a", "settings": {"steps": 8, "seed": 3}}


def test_the_same_plan_goes_on(tmp_path: Path) -> None:
    same_plan(tmp_path / "plan.json", PLAN, begun=False)
    same_plan(tmp_path / "plan.json", dict(reversed(PLAN.items())), begun=True)


def test_another_plan_is_refused_with_the_difference(tmp_path: Path) -> None:
    same_plan(tmp_path / "plan.json", PLAN, begun=False)
    other = {"checkpoint": "a", "settings": {"steps": 9, "seed": 3}}
    with pytest.raises(ValueError, match=r"another plan .*: settings\.steps was 8, is 9; undo"):
        same_plan(tmp_path / "plan.json", other, begun=True)


def test_a_plan_without_work_is_replaced(tmp_path: Path) -> None:
    same_plan(tmp_path / "plan.json", PLAN, begun=False)
    other = PLAN | {"checkpoint": "b"}
    same_plan(tmp_path / "plan.json", other, begun=False)
    same_plan(tmp_path / "plan.json", other, begun=True)
