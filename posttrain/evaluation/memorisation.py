"""Memorisation: how much of a training text a model recalls when it is given its beginning.

Always holds: prefix and suffix are token ids of one document, and what is generated is as long as
the suffix at most.
"""

import statistics
from collections.abc import Mapping, Sequence
from typing import Any

from transformers import PreTrainedModel

from posttrain.data.chat import ChatFormat
from posttrain.data.documents import render_document
from posttrain.evaluation.generation import sample
from posttrain.evaluation.prompts import Keep, by_prompt, drop
from posttrain.evaluation.suites import Memorisation


def longest_subsequence(one: Sequence[int], other: Sequence[int]) -> int:
    """Length of the longest common subsequence: what is kept in order, with gaps."""
    row = [0] * (len(other) + 1)
    for item in one:
        diagonal = 0
        for at, counterpart in enumerate(other, 1):
            above = row[at]
            row[at] = diagonal + 1 if item == counterpart else max(above, row[at - 1])
            diagonal = above
    return row[-1]


def longest_substring(one: Sequence[int], other: Sequence[int]) -> int:
    """Length of the longest common substring: what is kept in one piece."""
    most, row = 0, [0] * (len(other) + 1)
    for item in one:
        diagonal = 0
        for at, counterpart in enumerate(other, 1):
            above = row[at]
            row[at] = diagonal + 1 if item == counterpart else 0
            most, diagonal = max(most, row[at]), above
    return most


def rouge_l(generated: Sequence[int], reference: Sequence[int]) -> float:
    """F1 of the longest common subsequence (C.-Y. Lin, 2004), over tokens."""
    common = longest_subsequence(generated, reference)
    total = len(generated) + len(reference)
    return 2 * common / total if total else 0.0


def type_token_ratio(items: Sequence[int]) -> float:
    """Distinct items over items: low where what was generated repeats itself."""
    return len(set(items)) / len(items) if items else 0.0


def evaluate(
    model: PreTrainedModel,
    chat: ChatFormat,
    suite: Memorisation,
    rows: Sequence[Mapping[str, Any]],
    *,
    seed: int,
    keep: Keep = drop,
) -> dict[str, float]:
    """Figures for greedy and for nucleus sampling, e.g. `greedy.rouge_l`, `nucleus.exact`.

    `accuracy` is 1 - ROUGE-L, greedy: what was not recalled. ValueError if fewer than two documents
    are as long as prefix and suffix.
    """
    chosen = _documents(chat, suite, rows)
    prefixes = [ids[: suite.prefix] for ids, _ in chosen]
    suffixes = [ids[suite.prefix : suite.prefix + suite.suffix] for ids, _ in chosen]
    found: dict[str, float] = {}
    new: list[float] = []
    for name, temperature, top_p in (("greedy", 0.0, 1.0), ("nucleus", 1.0, suite.top_p)):
        generated = sample(
            model, prefixes, max_new_tokens=suite.suffix, temperature=temperature, top_p=top_p,
            stop_ids=[chat.eos], seed=seed,
        )  # fmt: skip
        found |= {f"{name}.{key}": value for key, value in _figures(generated, suffixes).items()}
        new = new or [1 - rouge_l(a, b) for a, b in zip(generated, suffixes, strict=True)]
    keep(by_prompt(new, [row for _, row in chosen], lambda row: ()))
    error = statistics.stdev(new) / len(new) ** 0.5
    whole = {"accuracy": statistics.fmean(new), "standard_error": error, "n": float(len(new))}
    return {**whole, **found}


def _documents(
    chat: ChatFormat, suite: Memorisation, rows: Sequence[Mapping[str, Any]]
) -> list[tuple[list[int], Mapping[str, Any]]]:
    """The first documents that are long enough, as token ids, with their rows."""
    found: list[tuple[list[int], Mapping[str, Any]]] = []
    for row in rows:
        ids = render_document(chat, row).ids  # type: ignore[arg-type]
        if len(ids) >= suite.prefix + suite.suffix and len(found) < suite.documents:
            found.append((ids, row))
    if len(found) < 2:
        raise ValueError(
            f"{suite.data} has {len(found)} documents of {suite.prefix + suite.suffix} tokens; "
            "lower prefix or suffix"
        )
    return found


def _figures(
    generated: Sequence[Sequence[int]], suffixes: Sequence[Sequence[int]]
) -> dict[str, float]:
    mean = statistics.fmean
    pairs = list(zip(generated, suffixes, strict=True))
    return {
        "rouge_l": mean(rouge_l(ours, true) for ours, true in pairs),
        "longest_substring": mean(longest_substring(ours, true) for ours, true in pairs),
        "exact": mean(list(ours) == list(true) for ours, true in pairs),
        "type_token_ratio": mean(type_token_ratio(ours) for ours, _ in pairs),
    }
