import copy
import math
from pathlib import Path
from typing import Any

import pytest
import torch
from pydantic import ValidationError
from transformers import AutoModelForCausalLM, PreTrainedTokenizerFast

from posttrain.training import model, rope
from posttrain.training.model import ModelConfig
from posttrain.training.rope import ContextConfig, RopeConfig
from tests.training.conftest import TRAINING, World

LLAMA3 = {"theta": 4e6, "llama3": {"factor": 32, "original_length": 8192}}


def _model(tokenizer: PreTrainedTokenizerFast, **changes: Any) -> Any:
    config = TRAINING["model"] | {"heads": 1} | changes
    return model.build(ModelConfig.model_validate(config), tokenizer, seed=0)


def _llama3_by_hand(theta: float, factor: float, size: int) -> list[float]:
    """facts.md section 4.3, with low 1, high 4 and original length 8192."""
    frequencies = []
    for index in range(0, size, 2):
        frequency = theta ** (-index / size)
        wavelength = 2 * math.pi / frequency
        blend = (8192 / wavelength - 1) / (4 - 1)
        if wavelength > 8192:
            frequency /= factor
        elif wavelength >= 8192 / 4:
            frequency *= (1 - blend) / factor + blend
        frequencies.append(frequency)
    return frequencies


@pytest.mark.parametrize("asked", [{"theta": 200}, LLAMA3])
def test_it_survives_saving_and_loading(
    asked: dict[str, Any], world: World, tmp_path: Path
) -> None:
    saved = _model(world.tokenizer, rope=asked)
    saved.save_pretrained(tmp_path)
    loaded = AutoModelForCausalLM.from_pretrained(tmp_path)
    assert rope.record(loaded) == rope.record(saved)
    rope.check(loaded, rope.record(saved))


def test_llama3_scaling_is_the_common_definition(world: World) -> None:
    live = _model(world.tokenizer, rope=LLAMA3).base_model.rotary_emb.inv_freq
    torch.testing.assert_close(live, torch.tensor(_llama3_by_hand(4e6, 32, 32)))


def test_the_record_follows_the_kernel_not_the_config(world: World) -> None:
    built = _model(world.tokenizer, rope=LLAMA3)
    declared = rope.record(built)
    other = _model(
        world.tokenizer, rope=LLAMA3 | {"llama3": {"factor": 8, "original_length": 8192}}
    )
    built.base_model.rotary_emb = other.base_model.rotary_emb
    with pytest.raises(ValueError, match="inv_freq_sha256"):
        rope.check(built, declared)


def test_a_change_reaches_the_computation(world: World) -> None:
    changed = _model(world.tokenizer, rope={"theta": 200})
    before = rope.record(changed)
    state = copy.deepcopy(changed.state_dict())
    rope.change(changed, ContextConfig(length=1024, rope=RopeConfig(theta=800)))
    fresh = _model(world.tokenizer, rope={"theta": 800}, context=1024)
    fresh.load_state_dict(state)
    ids = torch.arange(20, 60)[None]
    assert torch.equal(changed(ids).logits, fresh(ids).logits)
    assert changed.config.max_position_embeddings == 1024
    assert rope.record(changed) == rope.record(fresh) != before


def test_a_longer_context_alone_keeps_the_frequencies(world: World) -> None:
    changed = _model(world.tokenizer, rope=LLAMA3)
    before = rope.record(changed)
    rope.change(changed, ContextConfig(length=4096))
    assert rope.record(changed) == before


def test_a_kind_whose_frequencies_move_is_refused(world: World) -> None:
    built = _model(world.tokenizer)
    built.base_model.rotary_emb.rope_type = "dynamic"
    with pytest.raises(ValueError, match="'dynamic'"):
        rope.record(built)


def test_unknown_keys_are_refused() -> None:
    with pytest.raises(ValidationError):
        RopeConfig.model_validate({"theta": 200, "scaling": 8})
