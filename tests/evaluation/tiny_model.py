"""A model, small and untrained, with its tokenizer: enough to generate and to be measured."""

import torch
from transformers import ApertusConfig, ApertusForCausalLM

from posttrain.data import tiny
from posttrain.data.chat import ChatFormat
from posttrain.data.tokenizer import row_texts, train_tokenizer


def chat_format() -> ChatFormat:
    """The chat format over a tokenizer of tiny dialogues."""
    rows = tiny.dialogues(0, 1000) + tiny.corpus(0, 500)
    return ChatFormat.from_tokenizer(
        train_tokenizer((text for row in rows for text in row_texts(row)), 900)
    )


def model(vocabulary: int) -> ApertusForCausalLM:
    """Two layers of width 64 with weights that make its choices depend on all it has read."""
    with torch.random.fork_rng():
        torch.manual_seed(0)
        return ApertusForCausalLM(
            ApertusConfig(
                vocab_size=vocabulary, hidden_size=64, intermediate_size=96,
                num_hidden_layers=2, num_attention_heads=2, initializer_range=0.2,
                rope_parameters={"rope_type": "default", "rope_theta": 200.0},
                tie_word_embeddings=True, pad_token_id=3,
            )
        )  # fmt: skip
