"""The Llama architecture in GGUF: its settings as a Hugging Face config, its tensors by name.

llama.cpp rotates neighbouring numbers of a head where Hugging Face rotates its halves, so that the
rows of the query and key projections stand in another order there.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from posttrain.gguf.file import Array

PREFIX = "llama."
_KEYS = {
    "block_count": "num_hidden_layers", "context_length": "max_position_embeddings",
    "embedding_length": "hidden_size", "feed_forward_length": "intermediate_size",
    "attention.head_count": "num_attention_heads",
    "attention.head_count_kv": "num_key_value_heads", "rope.freq_base": "rope_theta",
    "attention.layer_norm_rms_epsilon": "rms_norm_eps", "vocab_size": "vocab_size",
    "rope.dimension_count": "head_dim",
}  # fmt: skip
"""Setting -> key of the Hugging Face config; there are no others that we understand."""

_WHOLE = {"token_embd": "model.embed_tokens", "output_norm": "model.norm", "output": "lm_head"}
_LAYER = {
    "attn_norm": "input_layernorm", "ffn_norm": "post_attention_layernorm",
    "attn_q": "self_attn.q_proj", "attn_k": "self_attn.k_proj", "attn_v": "self_attn.v_proj",
    "attn_output": "self_attn.o_proj", "ffn_gate": "mlp.gate_proj", "ffn_up": "mlp.up_proj",
    "ffn_down": "mlp.down_proj",
}  # fmt: skip


@dataclass(frozen=True)
class Target:
    """Where a tensor goes: name and shape; `heads` if its rows are to be put in order."""

    name: str
    shape: tuple[int, ...]
    heads: int | None = None

    def take(self, values: Array) -> Array:
        """The tensor as Hugging Face has it; ValueError if its shape is another."""
        if values.shape != self.shape:
            raise ValueError(f"{self.name} has shape {values.shape}, its config says {self.shape}")
        return values if self.heads is None else _halves(values, self.heads)


def _halves(values: Array, heads: int) -> Array:
    """Rows of each head, neighbours (2 i, 2 i + 1) put where the halves (i, i + half) are."""
    rows, columns = values.shape
    paired = values.reshape(heads, rows // heads // 2, 2, columns)
    return np.ascontiguousarray(paired.swapaxes(1, 2)).reshape(rows, columns)


def config(settings: Mapping[str, Any], *, tied: bool) -> dict[str, Any]:
    """The content of config.json; ValueError names a setting that is missing or unknown."""
    given = {
        key.removeprefix(PREFIX): value for key, value in settings.items() if key.startswith(PREFIX)
    }
    if unknown := sorted(given.keys() - _KEYS.keys()):
        raise ValueError(f"settings that are not understood: {', '.join(unknown)[:200]}")
    if missing := sorted(_KEYS.keys() - given.keys()):
        raise ValueError(f"settings that are missing: {', '.join(missing)}")
    found = {_KEYS[key]: _shortest(value) for key, value in given.items()}
    theta = found.pop("rope_theta")
    return {
        "architectures": ["LlamaForCausalLM"], "model_type": "llama", "hidden_act": "silu",
        "attention_bias": False, "mlp_bias": False, "attention_dropout": 0.0,
        "tie_word_embeddings": tied, "dtype": "float32", "use_cache": True,
        "rope_parameters": {"rope_type": "default", "rope_theta": theta}, **found,
    }  # fmt: skip


def _shortest(value: Any) -> Any:
    """The decimal that was meant: GGUF has float32, in which 1e-5 is 9.99999974737875e-06."""
    return float(str(np.float32(value))) if isinstance(value, float) else value


def targets(model: Mapping[str, Any]) -> dict[str, Target]:
    """Tensor of the file -> where it goes, for all that a model of this config has."""
    hidden, vocabulary = model["hidden_size"], model["vocab_size"]
    found = {
        f"{name}.weight": Target(
            f"{there}.weight", (hidden,) if there.endswith("norm") else (vocabulary, hidden)
        )
        for name, there in _WHOLE.items()
        if not (name == "output" and model["tie_word_embeddings"])
    }
    for layer in range(model["num_hidden_layers"]):
        for name, there in _LAYER.items():
            target = f"model.layers.{layer}.{there}.weight"
            found[f"blk.{layer}.{name}.weight"] = Target(target, *_shape(name, model))
    return found


def _shape(name: str, model: Mapping[str, Any]) -> tuple[tuple[int, ...], int | None]:
    """Shape of a tensor of a layer, and its heads if it is rotated."""
    hidden, inner = model["hidden_size"], model["intermediate_size"]
    heads, shared = model["num_attention_heads"], model["num_key_value_heads"]
    width = model["head_dim"]
    shapes: dict[str, tuple[tuple[int, ...], int | None]] = {
        "attn_norm": ((hidden,), None), "ffn_norm": ((hidden,), None),
        "attn_q": ((heads * width, hidden), heads), "attn_k": ((shared * width, hidden), shared),
        "attn_v": ((shared * width, hidden), None), "attn_output": ((hidden, heads * width), None),
        "ffn_gate": ((inner, hidden), None), "ffn_up": ((inner, hidden), None),
        "ffn_down": ((hidden, inner), None),
    }  # fmt: skip
    return shapes[name]
