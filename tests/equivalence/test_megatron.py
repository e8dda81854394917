"""Megatron's shards become the model they were split from, or are refused by name."""

import argparse
import json
import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
import torch
from transformers import AutoModelForCausalLM, LlamaConfig, LlamaForCausalLM

from posttrain.conversion.megatron import whole
from posttrain.conversion.weights import Weights
from posttrain.conversion.writing import write
from posttrain.equivalence.changes import Changes
from posttrain.equivalence.examination import examine

STAGES = RANKS = 2
LAYER: Mapping[str, Mapping[str, str]] = {
    "apertus": {
        "self_attn.o_proj.weight": "self_attention.linear_proj.weight",
        "self_attn.q_norm.weight": "self_attention.q_layernorm.weight",
        "self_attn.k_norm.weight": "self_attention.k_layernorm.weight",
        "attention_layernorm.weight": "self_attention.linear_qkv.layer_norm_weight",
        "feedforward_layernorm.weight": "pre_mlp_layernorm.weight",
        "mlp.down_proj.weight": "mlp.linear_fc2.weight",
        "mlp.act_fn.alpha_p": "mlp.activation_func.alpha_p",
        "mlp.act_fn.alpha_n": "mlp.activation_func.alpha_n",
    },
    "llama": {
        "self_attn.o_proj.weight": "self_attention.linear_proj.weight",
        "input_layernorm.weight": "input_layernorm.weight",
        "post_attention_layernorm.weight": "mlp.linear_fc1.layer_norm_weight",
        "mlp.down_proj.weight": "mlp.linear_fc2.weight",
    },
}


def split(state: Mapping[str, torch.Tensor], config: Mapping[str, Any], folder: Path) -> Path:
    """Write `state` as the ranks of a 2 by 2 run would, one layer in each stage."""
    for stage in range(STAGES):
        for rank in range(RANKS):
            place = folder / f"iter_0000007/mp_rank_{rank:02}_{stage:03}"
            place.mkdir(parents=True)
            part = dict(part_of(state, config, stage, rank))
            content = {"model": part, "args": argparse.Namespace(tp=2), "iteration": 7}
            torch.save(content, place / "model_optim_rng.pt")
    (folder / "latest_checkpointed_iteration.txt").write_text("7\n")
    return folder


def part_of(
    state: Mapping[str, torch.Tensor], config: Mapping[str, Any], stage: int, rank: int
) -> Any:
    """The names and parts of one rank, as Megatron's core has them."""
    own = {n.removeprefix(f"model.layers.{stage}."): t for n, t in state.items()
           if n.startswith(f"model.layers.{stage}.")}  # fmt: skip
    heads, groups = config["num_attention_heads"], config["num_key_value_heads"]
    q, k, v = (own[f"self_attn.{letter}_proj.weight"] for letter in "qkv")
    size = q.shape[0] // heads
    grouped = [
        torch.cat([q[g * heads // groups * size : (g + 1) * heads // groups * size],
                   k[g * size : (g + 1) * size], v[g * size : (g + 1) * size]])
        for g in range(groups)
    ]  # fmt: skip
    here = "decoder.layers.0."
    yield f"{here}self_attention.linear_qkv.weight", torch.cat(grouped).chunk(RANKS)[rank].clone()
    first = [own[name].chunk(RANKS)[rank] for name in ("mlp.gate_proj.weight", "mlp.up_proj.weight")
             if name in own]  # fmt: skip
    yield f"{here}mlp.linear_fc1.weight", torch.cat(first)
    yield f"{here}mlp.linear_fc1._extra_state", None  # Which is no tensor.
    for name, theirs in LAYER[config["model_type"]].items():
        rows = theirs.endswith(("linear_proj.weight", "linear_fc2.weight"))
        yield here + theirs, own[name].chunk(RANKS, 1)[rank].clone() if rows else own[name]
    padded = torch.nn.functional.pad
    if stage == 0:
        table = padded(state["model.embed_tokens.weight"], (0, 0, 0, 6))
        yield "embedding.word_embeddings.weight", table.chunk(RANKS)[rank].clone()
    else:
        yield "decoder.final_layernorm.weight", state["model.norm.weight"]
        yield (
            "output_layer.weight",
            padded(state["lm_head.weight"], (0, 0, 0, 6)).chunk(RANKS)[rank].clone(),
        )


@pytest.fixture(scope="module")
def sharded(own_head: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The shards of `own_head`, with its config and tokenizer beside them."""
    folder = tmp_path_factory.mktemp("megatron")
    model = AutoModelForCausalLM.from_pretrained(own_head)
    config = json.loads((own_head / "config.json").read_bytes())
    split(model.state_dict(), config, folder)
    shutil.copytree(own_head, folder / "huggingface",
                    ignore=shutil.ignore_patterns("*.safetensors*"))  # fmt: skip
    return folder


def test_shards_of_four_ranks_are_the_model_bit_by_bit(sharded: Path, own_head: Path) -> None:
    found, expected = Weights(sharded), Weights(own_head)
    assert found.names() == expected.names()
    for name, tensor in expected.items():
        assert torch.equal(found[name], tensor), name


def test_they_convert_and_are_found_equivalent(
    sharded: Path, own_head: Path, tmp_path: Path
) -> None:
    target = tmp_path / "model"
    write(Weights(sharded), sharded / "huggingface", target, Changes())
    checks = examine(own_head, target, Changes(), own_head)
    assert [check.name for check in checks if not check.passed] == []


def test_gates_and_grouped_queries_of_llama_are_taken_apart(tmp_path: Path) -> None:
    config = LlamaConfig(
        vocab_size=58, hidden_size=32, intermediate_size=48, num_hidden_layers=2,
        num_attention_heads=8, num_key_value_heads=2,
    )  # fmt: skip
    model = LlamaForCausalLM(config)
    config.save_pretrained(tmp_path / "huggingface")
    split(model.state_dict(), config.to_dict(), tmp_path)
    found = whole(tmp_path, tmp_path / "huggingface")
    assert found.keys() == model.state_dict().keys()
    for name, tensor in model.state_dict().items():
        assert torch.equal(found[name], tensor), name


def _drop(folder: Path) -> None:
    shutil.rmtree(folder / "mp_rank_01_000")


def _truncate(folder: Path) -> None:
    path = folder / "mp_rank_00_001/model_optim_rng.pt"
    path.write_bytes(path.read_bytes()[:900])


class Code:
    """Runs when it is unpickled by who trusts it."""

    def __reduce__(self) -> Any:
        return (Path.touch, (Path("ran"),))


def _change(folder: Path, name: str, value: Any) -> None:
    path = folder / "mp_rank_00_000/model_optim_rng.pt"
    content = torch.load(path, weights_only=False)
    content["model"][name] = value
    torch.save(content, path)


@pytest.mark.parametrize(
    ("deed", "told"),
    [
        (_drop, "is not whole: tensor rank 1 of stage 0 is missing"),
        (_truncate, "cannot be read as tensors alone"),
        (lambda f: _change(f, "x", Code()), "holds code"),
        (lambda f: _change(f, "decoder.layers.0.x", torch.ones(1)), "hold different tensors"),
        (lambda f: _change(f, "decoder.layers.0.self_attention.q_layernorm.weight",
                           torch.zeros(16)), "tensor ranks differ in"),
    ],
)  # fmt: skip
def test_shards_that_are_damaged_are_refused_and_no_code_runs(
    sharded: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, deed: Any, told: str
) -> None:
    monkeypatch.chdir(tmp_path)
    folder = shutil.copytree(sharded, tmp_path / "copy")
    deed(folder / "iter_0000007")
    with pytest.raises(ValueError, match=told):
        Weights(folder)
    assert not (tmp_path / "ran").exists()


def test_an_architecture_without_rules_is_refused(sharded: Path, tmp_path: Path) -> None:
    (tmp_path / "config.json").write_text('{"model_type": "mamba"}')
    with pytest.raises(ValueError, match="known for apertus, llama, not for 'mamba'"):
        whole(sharded, tmp_path)
