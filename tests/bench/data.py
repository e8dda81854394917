"""`python -m tests.bench.data`: what masks and packing cost, a thousand tokens and a step.

Conversations as ids, of lengths as in a mix of short and long ones (log-normal), end to end as an
indexed file has them. A step is one of SFT on the tiny model at the same tokens.
"""

import argparse
import sys
import time
from collections.abc import Callable, Sequence

import numpy as np
import torch
from numpy.typing import NDArray

from posttrain.data import tiny
from posttrain.data.apertus import ApertusFormat
from posttrain.data.packing import pack
from posttrain.data.targets import Marks, targets
from posttrain.data.tokenizer import row_texts, train_tokenizer
from posttrain.training.model import ModelConfig, build
from tests.bench.figures import Row, Spread, measured, table

CAPACITY, MOST, STEP = 4097, 64, 4096
"""Tokens and documents of a bin, and tokens of a step."""

Ids = NDArray[np.int64]


def conversations(chat: ApertusFormat, count: int, median: float) -> tuple[Ids, Ids]:
    """Ids end to end, and lengths around `median`: dialogues, their users made talkative."""
    draw = np.random.default_rng(1)
    rows = [np.array(chat.render(row).ids) for row in tiny.dialogues(1, 200)]  # type: ignore[arg-type]
    user, filler = chat.control["<|user_end|>"], chat.encode(" the")[0]
    made = []
    for number, length in enumerate(draw.lognormal(np.log(median), 1, count)):
        row = rows[number % len(rows)]
        longer = np.full(max(0, min(int(length), CAPACITY) - len(row)), filler)
        made.append(np.insert(row, int(np.argmax(row == user)), longer))
    return np.concatenate(made), np.array([len(each) for each in made])


def seconds(work: Callable[[], object], rounds: int) -> list[float]:
    """The times of `work`, after one run that is not counted."""
    work()
    found = []
    for _ in range(rounds):
        start = time.perf_counter()
        work()
        found.append(time.perf_counter() - start)
    return found


def step_seconds(chat: ApertusFormat, rounds: int) -> list[float]:
    """Steps of forward, backward and update on the quickstart's model, STEP tokens each."""
    config = ModelConfig(
        architecture="apertus", hidden=128, layers=3, heads=4, feed_forward=384, vocabulary=1024
    )
    model = build(config, chat.tokenizer, 1)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4)
    ids = torch.randint(0, 900, (STEP // 128, 128))

    def step() -> None:
        loss = model(input_ids=ids, labels=ids).loss
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()

    return seconds(step, rounds)


def costs(marks: Marks, ids: Ids, lengths: Ids, rounds: int) -> tuple[Spread, Spread]:
    """Microseconds of masks and of packing, a thousand tokens."""
    masks = seconds(lambda: targets(ids, lengths, marks), rounds)
    packed = seconds(lambda: pack(lengths, CAPACITY, MOST), rounds)
    per_thousand = 1e9 / len(ids)
    return Spread([t * per_thousand for t in masks]), Spread([t * per_thousand for t in packed])


def rows(rounds: int) -> list[Row]:
    """All that is measured."""
    torch.set_num_threads(1)
    texts = (text for row in tiny.dialogues(0, 1000) for text in row_texts(row))
    chat = ApertusFormat.resolved(train_tokenizer(texts, 900))
    step = Spread(step_seconds(chat, rounds))
    found: list[Row] = []
    for what, count, median in (("short", 20_000, 60.0), ("mixed", 8_000, 600.0)):
        ids, lengths = conversations(chat, count, median)
        masks, packed = costs(chat.marks, ids, lengths, rounds)
        both = Spread([a + b for a, b in zip(masks.values, packed.values, strict=True)])
        share = Spread([each * STEP / 1e7 for each in both.values]) / step
        mean = f"{what} conversations, {len(ids) / len(lengths):,.0f} tokens on average"
        found += [
            Row(f"{mean}: masks, µs a 1,000 tokens", str(masks)),
            Row(f"{mean}: packing, µs a 1,000 tokens", str(packed)),
            measured(f"{mean}: both, µs a 1,000 tokens", both, "<= 100"),
            measured(f"{mean}: both, % of a step", share, "<= 1"),
        ]
    return found


def main(arguments: Sequence[str] | None = None) -> int:
    """Print the table; 1 if a bar is not reached."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=7)
    found = rows(parser.parse_args(arguments).rounds)
    print(table(found))
    return 0 if all(row.reached for row in found) else 1


if __name__ == "__main__":
    sys.exit(main())
