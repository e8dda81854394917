from pathlib import Path

import pytest
from typer.testing import CliRunner

from posttrain.cli import app
from posttrain.plan import resolve
from posttrain.recipe import load
from posttrain.store import Store

RECIPES = sorted(Path("recipes").glob("*.yaml"))


@pytest.mark.parametrize("recipe", RECIPES, ids=lambda path: path.stem)
def test_every_recipe_can_be_planned(recipe: Path, tmp_path: Path) -> None:
    told = CliRunner().invoke(app, ["plan", str(recipe), "--store", str(tmp_path)])
    assert told.exit_code == 0, told.output
    plan = resolve(load(recipe), Store(tmp_path))
    assert f"{len(plan.nodes)} of {len(plan.nodes)} stages to run" in told.output


def test_what_a_large_recipe_lacks_is_data_and_a_checkpoint(tmp_path: Path) -> None:
    plan = resolve(load(Path("recipes/apertus-1.5-8b.yaml")), Store(tmp_path))
    blocked = {node.kind for node in plan.nodes.values() if node.blocked}
    assert blocked == {"files", "adopt"}


def test_the_larger_recipe_differs_where_it_says_so(tmp_path: Path) -> None:
    small, large = (
        resolve(load(Path(f"recipes/apertus-1.5-{size}.yaml")), Store(tmp_path)).nodes
        for size in ("8b", "70b")
    )
    for stage, field, values in (("sft", "batch", [256, 1024]), ("rl", "steps", [480, 180])):
        assert [getattr(nodes[stage].config, field) for nodes in (small, large)] == values
    assert small["charter"].key == large["charter"].key
