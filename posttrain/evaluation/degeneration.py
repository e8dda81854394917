"""Degeneration: whether a model, left to itself, falls into repeating.

Always holds: a generation is degenerate if in any chunk of 1,024 words, for any n, more than 0.8 of
the n-grams are repetitions of others in the chunk. Source: facts.md section 7.2.
"""

import statistics
from collections.abc import Mapping, Sequence
from typing import Any

from transformers import PreTrainedModel

from posttrain.data.chat import ChatFormat
from posttrain.evaluation.generation import sample
from posttrain.evaluation.prompts import Keep, by_prompt, drop
from posttrain.evaluation.suites import Degeneration

CHUNK = 1024
"""Words of a chunk; chunks do not overlap."""

LENGTHS = (1, 2, 3, 10, 25, 50)
"""The n of the n-grams."""

MOST = 0.8
"""The share of repeated n-grams above which a chunk is degenerate."""


def repetition(words: Sequence[str], length: int) -> float:
    """1 - distinct n-grams / n-grams of `words`; 0 if there is none of that length."""
    count = len(words) - length + 1
    if count < 1:
        return 0.0
    return 1 - len({tuple(words[at : at + length]) for at in range(count)}) / count


def degenerate(text: str) -> bool:
    """Whether any chunk of `text`, in lower case and split on white space, repeats too much."""
    words = text.lower().split()
    chunks = [words[start : start + CHUNK] for start in range(0, len(words), CHUNK)]
    return any(repetition(chunk, length) > MOST for chunk in chunks for length in LENGTHS)


def longest_repeat(items: Sequence[object]) -> int:
    """Length of the longest run of `items` that occurs at two places, which may overlap."""
    low, high = 0, max(len(items) - 1, 0)
    while low < high:
        middle = (low + high + 1) // 2
        seen: set[tuple[object, ...]] = set()
        runs = (tuple(items[at : at + middle]) for at in range(len(items) - middle + 1))
        repeated = any(run in seen or seen.add(run) for run in runs)  # type: ignore[func-returns-value]
        low, high = (middle, high) if repeated else (low, middle - 1)
    return low


def evaluate(
    model: PreTrainedModel,
    chat: ChatFormat,
    suite: Degeneration,
    rows: Sequence[Mapping[str, Any]],
    *,
    seed: int,
    keep: Keep = drop,
) -> dict[str, float]:
    """`degenerate`: mean over prompts of the share of generations that are; `accuracy` the rest.

    `longest_repeat` is the mean length of the longest token run that occurs twice, `mean_length`
    that of the generations, in tokens; `unfinished` the share that was cut.
    """
    prompts = [chat.render(row, add_generation_prompt=True).ids for row in rows]  # type: ignore[arg-type]
    responses = sample(
        model, [prompt for prompt in prompts for _ in range(suite.attempts)],
        max_new_tokens=suite.max_new_tokens, temperature=suite.temperature,
        stop_ids=chat.stop_ids, seed=seed,
    )  # fmt: skip
    texts = [_text(chat, response) for response in responses]
    kept = by_prompt([float(not degenerate(text)) for text in texts], rows, lambda row: ())
    keep(kept)
    means = [statistics.fmean(attempts) for attempts in kept.attempts]
    mean = statistics.fmean
    return {
        "accuracy": mean(means),
        "standard_error": statistics.stdev(means) / len(means) ** 0.5,
        "n": float(len(responses)),
        "degenerate": 1 - mean(means),
        "longest_repeat": mean(longest_repeat(response) for response in responses),
        "mean_length": mean(len(response) for response in responses),
        "unfinished": mean(response[-1] not in chat.stop_ids for response in responses),
    }


def _text(chat: ChatFormat, response: Sequence[int]) -> str:
    text = chat.tokenizer.decode(list(response), skip_special_tokens=True)
    assert isinstance(text, str)
    return text
