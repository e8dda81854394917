"""A training loop by hand: torch and transformers, nothing of ours.

`python -m tests.bench.sft_bare SPEC`. Bins are rows of one batch element, documents apart by
transformers' own means: positions that start anew, from which it makes the mask.
"""

from collections.abc import Sequence
from typing import Any

import torch
from torch.nn.functional import cross_entropy
from transformers import AutoModelForCausalLM

from tests.bench.sft_rounds import Rounds, run, spec

Row = tuple[torch.Tensor, torch.Tensor, torch.Tensor]


def row(packed: Sequence[Any]) -> Row:
    """Ids and positions (1, tokens), labels (1, tokens): -100 where there is no target."""
    ids = torch.tensor([token for each in packed for token in each["ids"]])
    mask = torch.tensor([bit for each in packed for bit in each["mask"]])
    positions = torch.cat([torch.arange(len(each["ids"])) for each in packed])
    return ids[None], positions[None], torch.where(mask.bool(), ids, -100)[None]


def main() -> None:
    """Train until input ends."""
    given = spec()
    rounds = Rounds(given.steps)
    torch.set_num_threads(given.threads)
    model = AutoModelForCausalLM.from_pretrained(given.model, attn_implementation="sdpa")
    optimizer = torch.optim.AdamW(model.parameters(), lr=given.rate, weight_decay=0.0)
    model.train()

    def step(batch: Sequence[Any]) -> float:
        rows = [row(packed) for packed in batch]
        total = sum(int((labels != -100).sum()) for _, _, labels in rows)
        value = 0.0
        for ids, positions, labels in rows:
            logits = model(input_ids=ids, position_ids=positions, use_cache=False).logits
            loss = cross_entropy(logits[0, :-1], labels[0, 1:], reduction="sum") / total
            torch.autograd.backward(loss)
            value += loss.item()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        optimizer.zero_grad()
        return value

    run(given, step, rounds)


if __name__ == "__main__":
    main()
