"""Comparing what two models say: live RoPE, log-probabilities and where they end."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import torch
from transformers import GenerationConfig, PreTrainedModel

from posttrain.data.chat import ChatFormat
from posttrain.equivalence.rendering import conversations, load_tokenizer
from posttrain.evaluation.generation import sample
from posttrain.training import rope

_NEW_TOKENS = 16


@dataclass(frozen=True)
class Divergence:
    """KL divergence of the target from the source in nats, over all positions compared."""

    mean: float
    most: float
    positions: int
    equal: bool  # Whether all logits are equal, bit for bit.


def rope_faults(source: PreTrainedModel, target: PreTrainedModel) -> Iterator[str]:
    """Whether both turn queries and keys by the same frequencies."""
    try:
        rope.check(target, rope.record(source))
    except ValueError as fault:
        yield str(fault)


def prompts(folder: Path) -> list[list[int]]:
    """The frozen conversations as token ids."""
    chat = ChatFormat.from_tokenizer(load_tokenizer(folder))
    return [chat.render(row).ids for row in conversations(chat)]


@torch.no_grad()
def divergence(
    source: PreTrainedModel, target: PreTrainedModel, rows: Sequence[Sequence[int]]
) -> Divergence:
    """How far `target` is from `source` on `rows`, over the tokens that both can say."""
    total, most, count, equal = 0.0, 0.0, 0, True
    for row in rows:
        ids = torch.tensor([list(row)])
        before, after = (m(input_ids=ids, use_cache=False).logits[0] for m in (source, target))
        before = before[:, : after.shape[-1]]
        equal &= torch.equal(before, after)
        logs = [logits.double().log_softmax(-1) for logits in (before, after)]
        kl = (logs[0].exp() * (logs[0] - logs[1])).sum(-1)
        total += float(kl.sum())
        most = max(most, float(kl.max())) if bool(kl.isfinite().all()) else float("inf")
        count += len(kl)
    return Divergence(total / count, most, count, equal)


def ending_faults(
    source: PreTrainedModel, target: PreTrainedModel, folders: tuple[Path, Path],
    rows: Sequence[Sequence[int]],
) -> Iterator[str]:  # fmt: skip
    """Whether both, left to themselves, say the same and stop at the same place."""
    said = [
        sample(
            model, rows, max_new_tokens=_NEW_TOKENS, temperature=0.0, stop_ids=_ends(folder), seed=0
        )
        for model, folder in zip((source, target), folders, strict=True)
    ]
    for number, (before, after) in enumerate(zip(*said, strict=True), 1):
        if before != after:
            yield (
                f"conversation {number} goes on for {len(after)} tokens, did for {len(before)}"
                if len(before) != len(after)
                else f"conversation {number} goes on with other tokens"
            )


def _ends(folder: Path) -> list[int]:
    config = GenerationConfig.from_pretrained(folder, local_files_only=True)
    ends = config.eos_token_id
    return list(ends) if isinstance(ends, list) else [ends] if ends is not None else []
