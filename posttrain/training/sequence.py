"""Rows that several ranks share: each holds an equal part of the tokens (Ulysses).

For attention the ranks exchange: each gets all tokens for its part of the heads, and gives back in
the same way. Source: Jacobs et al. 2023 (DeepSpeed Ulysses). Alone, a rank has the whole row.
"""

from typing import Any, NamedTuple

import torch
from torch import nn
from torch.nn import functional
from transformers import AttentionInterface, AttentionMaskInterface, PreTrainedModel
from verl.utils import ulysses

from posttrain.training.attention import attend, no_mask, use_documents

_NAME = "shared_documents"


class Row(NamedTuple):
    """Tokens (n,) of documents end to end, what follows each, and whether that is a target.

    `documents` are lengths: on all ranks those of the whole row, with the padding at its end.
    """

    ids: torch.Tensor
    positions: torch.Tensor
    following: torch.Tensor
    wanted: torch.Tensor
    documents: list[int]
    padding: int = 0

    def part(self, ranks: int) -> "Row":
        """This rank's part of a row that `ranks` ranks share."""
        if ranks == 1:
            return self
        padding = -len(self.ids) % ranks
        mine = ulysses.get_ulysses_sequence_parallel_rank()

        def cut(values: torch.Tensor) -> torch.Tensor:
            part: torch.Tensor = functional.pad(values, (0, padding)).chunk(ranks)[mine]
            return part

        return Row(
            cut(self.ids), cut(self.positions), cut(self.following), cut(self.wanted),
            self.documents + [padding] * bool(padding), padding,
        )  # fmt: skip


def whole(values: torch.Tensor, padding: int) -> torch.Tensor:
    """The values (n,) of a whole row from those of its parts, without its padding."""
    found: torch.Tensor = ulysses.gather_outputs_and_unpad(
        values, gather_dim=0, unpad_dim=0, padding_size=padding
    )
    return found


def use(model: PreTrainedModel, ranks: int) -> None:
    """Have `model` attend within documents of rows that `ranks` ranks share.

    ValueError if its heads cannot be divided among them.
    """
    if ranks == 1:
        use_documents(model)
        return
    heads, fewer = model.config.num_attention_heads, model.config.num_key_value_heads
    if heads % ranks or (fewer % ranks and ranks % fewer):
        raise ValueError(
            f"sequence_parallel {ranks} divides neither {heads} attention heads nor their {fewer} "
            "keys and values evenly; choose a divisor of both"
        )
    model.set_attn_implementation(_NAME)


def _exchanged(
    module: nn.Module, query: torch.Tensor, key: torch.Tensor, value: torch.Tensor, mask: None,
    **options: Any,
) -> tuple[torch.Tensor, None]:  # fmt: skip
    """As `attend`, of this rank's tokens."""
    ranks = ulysses.get_ulysses_sequence_parallel_world_size()
    query, key, value = (_all_tokens(each, ranks) for each in (query, key, value))
    out, _ = attend(module, query, key, value, mask, **options)
    return ulysses.gather_heads_scatter_seq(out, head_dim=2, seq_dim=1), None


def _all_tokens(part: torch.Tensor, ranks: int) -> torch.Tensor:
    """(1, heads, part of the tokens, size) -> (1, part of the heads, tokens, size).

    Where there are fewer heads than ranks, several ranks get the same one.
    """
    if (heads := part.shape[1]) % ranks:
        part = part.repeat_interleave(ranks // heads, dim=1)
    found: torch.Tensor = ulysses.gather_seq_scatter_heads(part, seq_dim=2, head_dim=1)
    return found


AttentionInterface.register(_NAME, _exchanged)
AttentionMaskInterface.register(_NAME, no_mask)
