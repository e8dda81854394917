"""A small model folder with everything a conversion can lose: scaled RoPE, own head, stop ids."""

from pathlib import Path

import pytest
import torch
from transformers import ApertusConfig, ApertusForCausalLM

from tests.evaluation.tiny_model import chat_format

SCALED = {
    "rope_type": "llama3", "rope_theta": 200.0, "factor": 8.0, "low_freq_factor": 1.0,
    "high_freq_factor": 4.0, "original_max_position_embeddings": 32,
}  # fmt: skip


def save(folder: Path, *, tied: bool, shards: str = "50GB") -> Path:
    """A model of two layers whose projections are square, with its tokenizer."""
    chat = chat_format()
    with torch.random.fork_rng():
        torch.manual_seed(0)
        model = ApertusForCausalLM(
            ApertusConfig(
                vocab_size=len(chat.tokenizer) + 64, hidden_size=32, intermediate_size=48,
                num_hidden_layers=2, num_attention_heads=2, initializer_range=0.2,
                rope_parameters=SCALED, tie_word_embeddings=tied, max_position_embeddings=512,
                bos_token_id=1, eos_token_id=2, pad_token_id=3, dtype="float32",
            )
        )  # fmt: skip
    model.generation_config.eos_token_id = chat.stop_ids
    model.save_pretrained(folder, max_shard_size=shards)
    chat.tokenizer.save_pretrained(folder)
    return folder


@pytest.fixture(scope="session")
def own_head(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder whose head is not its embedding, in several shards."""
    return save(tmp_path_factory.mktemp("own") / "model", tied=False, shards="60KB")


@pytest.fixture(scope="session")
def tied_head(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder whose head is its embedding."""
    return save(tmp_path_factory.mktemp("tied") / "model", tied=True)
