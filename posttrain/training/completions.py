"""Completions in the engine: what the model gives each of them, as a sum over its tokens.

A sum is over one document's targets, whichever documents share its row.
"""

from collections.abc import Sequence
from itertools import islice
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


def token_log_probs(
    engine: Engine, documents: Sequence[Rendered], *, temperature: float = 1.0
) -> list[list[float]]:
    """Log-probability, in nats, of each of each document's targets under the engine's weights."""
    if not documents:
        return []
    with engine.eval_mode():
        batch = tensors(rows(documents), temperature=temperature)
        values = iter(engine.infer_batch(batch, _each)["metrics"]["values"])
    return [list(islice(values, sum(each.mask))) for each in documents]


def _each(
    model_output: dict[str, torch.Tensor], data: TensorDict, dp_group: Any = None
) -> tuple[torch.Tensor, dict[str, list[float]]]:
    found = model_output["log_probs"].values()[:-1]
    targets = found[data["loss_mask"].values()[1:].bool()]
    return targets.sum(), {"values": targets.tolist()}


def _told(
    model_output: dict[str, torch.Tensor], data: TensorDict, dp_group: Any = None
) -> tuple[torch.Tensor, dict[str, list[float]]]:
    sums = summed(model_output["log_probs"], data)
    return sums.sum(), {"sums": sums.tolist()}
