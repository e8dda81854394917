"""The models that SFT is measured on: a tiny Apertus, and SmolLM2's shape at 135 M parameters."""

from typing import Any

import torch
from transformers import ApertusConfig, ApertusForCausalLM, LlamaConfig, LlamaForCausalLM

_SHARED: dict[str, Any] = {
    "max_position_embeddings": 2048, "tie_word_embeddings": True, "dtype": "float32",
    "rope_parameters": {"rope_type": "default", "rope_theta": 10_000.0},
    "bos_token_id": 1, "eos_token_id": 2, "pad_token_id": 3,
}  # fmt: skip


def tiny() -> ApertusForCausalLM:
    """The quickstart's sizes."""
    torch.manual_seed(0)
    return ApertusForCausalLM(
        ApertusConfig(
            vocab_size=1024, hidden_size=128, intermediate_size=384, num_hidden_layers=3,
            num_attention_heads=4, num_key_value_heads=4, **_SHARED,
        )
    )  # fmt: skip


def small() -> LlamaForCausalLM:
    """SmolLM2-135M's sizes; random weights."""
    torch.manual_seed(0)
    return LlamaForCausalLM(
        LlamaConfig(
            vocab_size=49_152, hidden_size=576, intermediate_size=1536, num_hidden_layers=30,
            num_attention_heads=9, num_key_value_heads=3, **_SHARED,
        )
    )  # fmt: skip


MODELS = {"tiny": tiny, "135m": small}
