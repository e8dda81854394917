import pytest
import torch

from posttrain.training import model
from posttrain.training.model import ModelConfig
from tests.training.conftest import TRAINING, World

CONFIG = ModelConfig.model_validate(TRAINING["model"])


def test_the_quickstart_s_model_has_its_size(world: World) -> None:
    sizes = {"hidden": 128, "layers": 3, "heads": 4, "feed_forward": 384, "vocabulary": 768}
    config = ModelConfig.model_validate({"architecture": "apertus", **sizes})
    built = model.build(config, world.tokenizer, seed=0)
    assert sum(parameter.numel() for parameter in built.parameters()) == 590_918
    assert built.get_output_embeddings().weight is built.get_input_embeddings().weight
    assert built.config.rope_parameters["rope_theta"] == 200


def test_the_seed_decides_the_weights_and_nothing_else(world: World) -> None:
    torch.manual_seed(1)
    first = model.build(CONFIG, world.tokenizer, seed=3)
    after = torch.rand(())
    torch.manual_seed(1)
    assert torch.equal(torch.rand(()), after)
    again, other = (model.build(CONFIG, world.tokenizer, seed=seed) for seed in (3, 4))
    weights = [each.base_model.layers[0].mlp.up_proj.weight for each in (first, again, other)]
    assert torch.equal(weights[0], weights[1])
    assert not torch.equal(weights[0], weights[2])


def test_gains_and_residual_projections_are_scaled(world: World) -> None:
    layer = model.build(CONFIG, world.tokenizer, seed=0).base_model.layers[0]
    assert torch.equal(layer.self_attn.q_norm.weight, torch.full((16,), 1.5))
    assert layer.mlp.up_proj.weight.std().item() == pytest.approx(0.06, rel=0.1)
    assert layer.mlp.down_proj.weight.std().item() == pytest.approx(0.06 / 2, rel=0.1)


def test_a_tokenizer_that_does_not_fit_is_refused(world: World) -> None:
    small = CONFIG.model_copy(update={"vocabulary": 300})
    with pytest.raises(ValueError, match=r"raise model\.vocabulary"):
        model.build(small, world.tokenizer, seed=0)
