"""Causal attention within each of several documents that lie end to end in one row.

No document sees another, and none is padded: each gets its own call of torch's kernel. With a
block-diagonal mask the same took 38 times as long (64 documents of 20 to 108 tokens, one core).
"""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch import nn
from torch.nn.functional import scaled_dot_product_attention
from transformers import AttentionInterface, AttentionMaskInterface, PreTrainedModel

NAME = "documents"


def use_documents(model: PreTrainedModel) -> None:
    """Have `model` attend within documents; each forward pass then needs `documents=lengths`.

    Lengths are ints in the order of the documents and add up to the row's tokens.
    """
    model.set_attn_implementation(NAME)


@contextmanager
def whole_rows(model: PreTrainedModel) -> Iterator[None]:
    """Have `model` attend within rows meanwhile, as for generation."""
    model.set_attn_implementation("sdpa")
    try:
        yield
    finally:
        use_documents(model)


def attend(
    _: nn.Module, query: torch.Tensor, key: torch.Tensor, value: torch.Tensor, mask: None,
    *, documents: list[int], scaling: float, dropout: float = 0.0, **unused: Any,
) -> tuple[torch.Tensor, None]:  # fmt: skip
    """Query (1, heads, tokens, size), key and value the same or with fewer heads.

    Returns (1, tokens, heads, size), as transformers takes it.
    """
    assert mask is None
    assert sum(documents) == query.shape[2]
    grouped = query.shape[1] != key.shape[1]
    cut = (torch.split(each, documents, 2) for each in (query, key, value))
    parts = [
        scaled_dot_product_attention(
            q, k, v, is_causal=True, scale=scaling, dropout_p=dropout, enable_gqa=grouped
        )
        for q, k, v in zip(*cut, strict=True)
    ]
    return torch.cat(parts, 2).transpose(1, 2), None


def no_mask(*unused: Any, **also_unused: Any) -> None:
    """Documents need none."""
    return


AttentionInterface.register(NAME, attend)
AttentionMaskInterface.register(NAME, no_mask)
