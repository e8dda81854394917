from pathlib import Path

import pytest

from posttrain.backends import profile
from posttrain.plan import resolve
from posttrain.recipe import load
from posttrain.rl.config import Place, overrides
from posttrain.stages.rl import Config
from posttrain.store import Store


@pytest.mark.parametrize(("size", "nodes"), [("8b", 16), ("70b", 16)])
def test_verl_accepts_the_rl_stage_of_a_large_recipe(size: str, nodes: int, tmp_path: Path) -> None:
    from verl.utils.config import omega_conf_to_dataclass

    from posttrain.rl.session import compose

    plan = resolve(load(Path(f"recipes/apertus-1.5-{size}.yaml")), Store(tmp_path))
    config = plan.nodes["rl"].config
    assert isinstance(config, Config)
    work = tmp_path / "work"
    place = Place(work / "model", work, None, plan.recipe.seed)
    asked = compose(overrides(config, place, profile("gpu")))
    assert (asked.trainer.nnodes, asked.trainer.n_gpus_per_node) == (nodes, 4)
    assert asked.data.train_batch_size * asked.actor_rollout_ref.rollout.n == 2048
    rollout = omega_conf_to_dataclass(asked.actor_rollout_ref.rollout)
    assert rollout.tensor_model_parallel_size == (4 if size == "70b" else 1)
