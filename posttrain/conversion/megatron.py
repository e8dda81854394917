"""The shards that Megatron-LM's ranks leave (`mp_rank_TT[_PPP]/model_optim_rng.pt`), joined.

Tensor-parallel parts are put together by rule: columns and vocabulary along their rows, rows along
their columns, what every rank has must be equal; layers of a pipeline are numbered through. Names
become those of Hugging Face. Always holds: files are read as tensors and plain values alone, never
as code; a rank that is missing and a name that no rule knows are errors.
"""

import argparse
import json
import pickle
import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import torch

_RANK = re.compile(r"mp_rank_(\d+)(?:_(\d+))?")
_FILE = "model_optim_rng.pt"
_LATEST = "latest_checkpointed_iteration.txt"
_LAYER = re.compile(r"decoder\.layers\.(\d+)\.(.+)")

_COLUMNS = ("linear_qkv.weight", "linear_fc1.weight", "output_layer.weight",
            "word_embeddings.weight", "linear_qkv.bias", "linear_fc1.bias")  # fmt: skip
"""Ends of names that are split along their first dimension."""

_ROWS = ("linear_proj.weight", "linear_fc2.weight")
"""Ends of names that are split along their second dimension."""

_WHOLE: Mapping[str, str] = {
    "embedding.word_embeddings.weight": "model.embed_tokens.weight",
    "decoder.final_layernorm.weight": "model.norm.weight",
    "output_layer.weight": "lm_head.weight",
}
_IN_LAYER: Mapping[str, Mapping[str, str]] = {
    "apertus": {
        "self_attention.linear_proj.weight": "self_attn.o_proj.weight",
        "self_attention.q_layernorm.weight": "self_attn.q_norm.weight",
        "self_attention.k_layernorm.weight": "self_attn.k_norm.weight",
        "self_attention.linear_qkv.layer_norm_weight": "attention_layernorm.weight",
        "input_layernorm.weight": "attention_layernorm.weight",
        "mlp.linear_fc1.layer_norm_weight": "feedforward_layernorm.weight",
        "pre_mlp_layernorm.weight": "feedforward_layernorm.weight",
        "mlp.linear_fc1.weight": "mlp.up_proj.weight",
        "mlp.linear_fc2.weight": "mlp.down_proj.weight",
        "mlp.activation_func.alpha_p": "mlp.act_fn.alpha_p",
        "mlp.activation_func.alpha_n": "mlp.act_fn.alpha_n",
    },
    "llama": {
        "self_attention.linear_proj.weight": "self_attn.o_proj.weight",
        "self_attention.linear_qkv.layer_norm_weight": "input_layernorm.weight",
        "input_layernorm.weight": "input_layernorm.weight",
        "mlp.linear_fc1.layer_norm_weight": "post_attention_layernorm.weight",
        "pre_mlp_layernorm.weight": "post_attention_layernorm.weight",
        "mlp.linear_fc2.weight": "mlp.down_proj.weight",
    },
}
"""Model type -> a layer's name in Megatron's core -> that in Hugging Face."""

_XIELU: Mapping[str, float] = {"mlp.act_fn.beta": 0.5, "mlp.act_fn.eps": -1e-6}
"""Constants of xIELU that Hugging Face keeps beside its parameters, and Megatron in its code."""

_QKV, _GATED = "self_attention.linear_qkv.weight", "mlp.linear_fc1.weight"

State = Mapping[str, torch.Tensor]


def present(folder: Path) -> bool:
    """Whether `folder` holds Megatron's shards, or those of an iteration."""
    return (folder / _LATEST).is_file() or any(_RANK.fullmatch(p.name) for p in folder.iterdir())


def whole(folder: Path, config: Path) -> dict[str, torch.Tensor]:
    """The full tensors by Hugging Face's names; `config` is the folder of its `config.json`."""
    settings: dict[str, Any] = json.loads((config / "config.json").read_bytes())
    if settings["model_type"] not in _IN_LAYER:
        known = ", ".join(_IN_LAYER)
        raise ValueError(
            f"{folder}: Megatron's names are known for {known}, not for {settings['model_type']!r}"
        )
    stages = [_joined(folder, ranks) for ranks in _ranks(folder)]
    found: dict[str, torch.Tensor] = {}
    for name, tensor in _numbered(stages):
        for renamed, value in _renamed(name, tensor, settings):
            if renamed in found and not torch.equal(found[renamed], value):
                raise ValueError(f"{folder}: stages of the pipeline differ in {name}")
            found[renamed] = value
    if settings["model_type"] == "apertus":
        found |= dict(_constants(found))
    return found


def _ranks(folder: Path) -> list[list[Path]]:
    """The files of each stage of the pipeline, in the order of the tensor-parallel ranks."""
    if (latest := folder / _LATEST).is_file():
        folder = folder / f"iter_{int(latest.read_text()):07}"
    places = {
        (int(match[2] or 0), int(match[1])): path / _FILE
        for path in folder.iterdir()
        if (match := _RANK.fullmatch(path.name))
    }
    stages, width = (1 + max((place[n] for place in places), default=-1) for n in (0, 1))
    wanted = [(stage, rank) for stage in range(stages) for rank in range(width)]
    missing = [each for each in wanted if each not in places or not places[each].is_file()]
    if missing or not wanted:
        told = ", ".join(f"tensor rank {rank} of stage {stage}" for stage, rank in missing[:4])
        raise ValueError(f"{folder} is not whole: {told or 'no rank'} is missing")
    return [[places[stage, rank] for rank in range(width)] for stage in range(stages)]


def _loaded(path: Path) -> State:
    try:
        with torch.serialization.safe_globals([argparse.Namespace]):
            content = torch.load(path, map_location="cpu", weights_only=True)
    except (RuntimeError, EOFError, OSError, pickle.UnpicklingError) as fault:
        told = " ".join(str(fault).split())
        raise ValueError(
            f"{path} cannot be read as tensors alone, it is cut short, damaged or holds code: "
            f"{told[:160]}"
        ) from None
    if not isinstance(content, Mapping) or not isinstance(content.get("model"), Mapping):
        raise ValueError(f"{path} has no `model`: an interleaved pipeline's chunks are not read")
    return {
        name: value for name, value in content["model"].items() if isinstance(value, torch.Tensor)
    }


def _joined(folder: Path, ranks: Sequence[Path]) -> dict[str, torch.Tensor]:
    """The tensors of one stage of the pipeline, its ranks' parts put together."""
    parts = [_loaded(path) for path in ranks]
    if any(part.keys() != parts[0].keys() for part in parts):
        raise ValueError(f"{folder} is not whole: its tensor ranks hold different tensors")
    return {name: _together(folder, name, [part[name] for part in parts]) for name in parts[0]}


def _together(folder: Path, name: str, parts: Sequence[torch.Tensor]) -> torch.Tensor:
    if name.endswith(_COLUMNS):
        if name.endswith(_GATED) and len(parts) > 1:
            return torch.stack(list(parts))  # Taken apart where it is known whether it is gated.
        return torch.cat(list(parts), 0)
    if name.endswith(_ROWS):
        return torch.cat(list(parts), 1)
    if not all(torch.equal(part, parts[0]) for part in parts):
        raise ValueError(f"{folder}: tensor ranks differ in {name}, which no rule splits")
    return parts[0]


def _numbered(stages: Sequence[State]) -> Iterator[tuple[str, torch.Tensor]]:
    """All tensors, the layers of later stages numbered on."""
    before = 0
    for stage in stages:
        numbers = [int(match[1]) for name in stage if (match := _LAYER.fullmatch(name))]
        for name, tensor in stage.items():
            match = _LAYER.fullmatch(name)
            yield (
                f"decoder.layers.{before + int(match[1])}.{match[2]}" if match else name,
                tensor,
            )
        before += 1 + max(numbers, default=-1)


def _renamed(
    name: str, tensor: torch.Tensor, settings: Mapping[str, Any]
) -> Iterator[tuple[str, torch.Tensor]]:
    if match := _LAYER.fullmatch(name):
        for inner, value in _of_layer(match[2], tensor, settings):
            yield f"model.layers.{match[1]}.{inner}", value
    elif name in _WHOLE:
        if not (name == "output_layer.weight" and settings.get("tie_word_embeddings")):
            # The vocabulary is padded so that ranks can share it.
            rows = None if name.startswith("decoder") else settings["vocab_size"]
            yield _WHOLE[name], tensor[:rows]
    else:
        raise ValueError(f"no rule tells what {name} of Megatron's shards is")


def _of_layer(
    name: str, tensor: torch.Tensor, settings: Mapping[str, Any]
) -> Iterator[tuple[str, torch.Tensor]]:
    known = _IN_LAYER[settings["model_type"]]
    if name == _QKV:
        for letter, value in zip("qkv", _apart(tensor, settings), strict=True):
            yield f"self_attn.{letter}_proj.weight", value
    elif name == _GATED:
        yield from _first(tensor, gated=name not in known)
    elif name in known:
        yield known[name], tensor
    else:
        raise ValueError(f"no rule tells what {name} of Megatron's layers is")


def _apart(tensor: torch.Tensor, settings: Mapping[str, Any]) -> Iterator[torch.Tensor]:
    """Queries, keys and values: each group of heads has its queries, then its key and value."""
    heads, groups = settings["num_attention_heads"], settings["num_key_value_heads"]
    size = settings.get("head_dim") or settings["hidden_size"] // heads
    several = heads // groups
    whole = tensor.view(groups, several + 2, size, tensor.shape[-1])
    for part in (whole[:, :several], whole[:, several], whole[:, several + 1]):
        yield part.reshape(-1, tensor.shape[-1]).contiguous()


def _first(tensor: torch.Tensor, *, gated: bool) -> Iterator[tuple[str, torch.Tensor]]:
    """The first projection of the feed-forward; a gated one holds gate and value on each rank."""
    ranks = tensor if tensor.dim() == 3 else tensor[None]
    if not gated:
        yield "mlp.up_proj.weight", ranks.reshape(-1, ranks.shape[-1])
        return
    for name, part in zip(("gate", "up"), ranks.chunk(2, 1), strict=True):
        yield f"mlp.{name}_proj.weight", part.reshape(-1, ranks.shape[-1])


def _constants(found: State) -> Iterator[tuple[str, torch.Tensor]]:
    """What a layer of xIELU has besides its parameters."""
    ends = "mlp.act_fn.alpha_p"
    for name, tensor in found.items():
        if name.endswith(ends):
            for constant, value in _XIELU.items():
                yield name.replace(ends, constant), torch.tensor(value, dtype=tensor.dtype)
