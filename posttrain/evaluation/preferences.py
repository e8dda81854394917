"""Measuring a checkpoint on preference pairs: which side of each it finds likelier.

Always holds: a figure is over all pairs of the split; a pair that cannot be compared is an error.
"""

import statistics
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import torch
from transformers import PreTrainedModel

from posttrain.data.chat import ChatFormat, Rendered
from posttrain.data.pairs import Pair, render_pair, tokens, unusable
from posttrain.evaluation.padding import padded

_BATCH = 64
_LOGITS = 2**28
"""Logits of a batch at most, 1 GiB in float32; a document that has more is alone."""

Sides = tuple[float, float]
"""Of one pair: the summed log-probabilities, in nats, of the chosen and the rejected side."""


def rendered(chat: ChatFormat, rows: Sequence[Mapping[str, Any]], longest: int) -> list[Pair]:
    """The pairs of `rows`; ValueError names one that cannot be compared."""
    pairs = [render_pair(chat, row) for row in rows]
    for number, pair in enumerate(pairs, 1):
        if reason := unusable(pair, longest):
            raise ValueError(f"held-out pair {number} is {reason.replace('_', ' ')}; leave it out")
    return pairs


def compare(model: PreTrainedModel, pairs: Sequence[Pair]) -> list[Sides]:
    """Both sides' log-probabilities of each pair."""
    values = log_probs(model, [side for pair in pairs for side in pair.sides])
    return list(zip(values[::2], values[1::2], strict=True))


@torch.no_grad()
def log_probs(model: PreTrainedModel, documents: Sequence[Rendered]) -> list[float]:
    """Summed log-probability of each document's targets, in nats; documents share batches."""
    training = model.training
    model.eval()
    order = sorted(range(len(documents)), key=lambda index: len(documents[index].ids))
    found = [0.0] * len(documents)
    try:
        for chosen in _batches(order, documents, _LOGITS // model.config.vocab_size):
            sums = _summed(model, [documents[index] for index in chosen])
            for index, value in zip(chosen, sums.tolist(), strict=True):
                found[index] = value
    finally:
        model.train(training)
    return found


def _batches(
    order: Sequence[int], documents: Sequence[Rendered], most: int
) -> Iterator[Sequence[int]]:
    """`order`, in which documents get longer, cut where a batch has more than `most` tokens."""
    start = 0
    for end in range(1, len(order) + 1):
        length = len(documents[order[end]].ids) if end < len(order) else 0
        full = end - start == _BATCH or (end - start + 1) * length > most
        if end == len(order) or full:
            yield order[start:end]
            start = end


def _summed(model: PreTrainedModel, documents: Sequence[Rendered]) -> torch.Tensor:
    ids, mask = padded(documents, model.device)
    logits = model(input_ids=ids, use_cache=False).logits[:, :-1].float()
    given = logits.log_softmax(-1).gather(-1, ids[:, 1:, None])[..., 0]
    return torch.where(mask[:, 1:], given, 0.0).sum(-1)


def figures(
    sides: Sequence[Sides], pairs: Sequence[Pair], rows: Sequence[Mapping[str, Any]]
) -> dict[str, float]:
    """`accuracy`: the share of pairs whose chosen side is likelier than the rejected one.

    `margin` is the mean difference in nats; lengths are tokens. Rows with a `task` add an
    `accuracy.TASK` for each.
    """
    right = [float(chosen > rejected) for chosen, rejected in sides]
    tasks: dict[str, list[float]] = {}
    for row, value in zip(rows, right, strict=True):
        if "task" in row:
            tasks.setdefault(row["task"], []).append(value)
    mean = statistics.fmean
    return {
        "accuracy": mean(right),
        "standard_error": statistics.stdev(right) / len(right) ** 0.5,
        "n": float(len(right)),
        "margin": mean(chosen - rejected for chosen, rejected in sides),
        "chosen_length": mean(tokens(pair.chosen for pair in pairs)),
        "rejected_length": mean(tokens(pair.rejected for pair in pairs)),
        **{f"accuracy.{task}": mean(values) for task, values in sorted(tasks.items())},
    }
