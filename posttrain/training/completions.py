"""Completions in the engine: what the model gives each of them, as a sum over its tokens.

A sum is over one document's targets, whichever documents share its row.
"""

from collections.abc import Sequence
from typing import Any

import torch
from tensordict import TensorDict

from posttrain.data.chat import Rendered
from posttrain.training.engine import Engine, rows, tensors


def summed(values: torch.Tensor, batch: TensorDict) -> torch.Tensor:
    """`values`, ragged like the ids of `batch`, summed over each document: (documents,)."""
    lengths = batch["documents"].values()
    index = torch.repeat_interleave(torch.arange(len(lengths), device=lengths.device), lengths)
    flat = values.values()
    return flat.new_zeros(len(lengths)).index_add(0, index, flat)


def log_probs(engine: Engine, documents: Sequence[Rendered], together: int = 1) -> list[float]:
    """Summed log-probability, in nats, of each document's targets under the engine's weights."""
    if not documents:
        return []
    with engine.eval_mode():
        out = engine.infer_batch(tensors(rows(documents, together)), _told)
    found: list[float] = out["metrics"]["sums"]
    assert len(found) == len(documents)
    return found


def _told(
    model_output: dict[str, torch.Tensor], data: TensorDict, dp_group: Any = None
) -> tuple[torch.Tensor, dict[str, list[float]]]:
    sums = summed(model_output["log_probs"], data)
    return sums.sum(), {"sums": sums.tolist()}
