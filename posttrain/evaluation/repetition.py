"""Repeated substrings: whether a generation says the same tokens again, at length or all the time.

Always holds: what counts is token ids, not words; a generation fails if it has a repeated run of
the suite's length, or a window that is nearly all repetition. Source: facts.md section 7.2.
"""

import statistics
from collections.abc import Sequence

from transformers import PreTrainedModel

from posttrain.data.chat import ChatFormat
from posttrain.evaluation.degeneration import MOST, longest_repeat, repetition
from posttrain.evaluation.prompts import Keep, by_prompt, drop, summary
from posttrain.evaluation.replies import Row, replies
from posttrain.evaluation.suites import Repetition

WINDOW = 256
"""Tokens of a window; there is one at every token."""

SHORTEST = 10
"""Tokens from which on a repeated run is counted as one."""


def looping(ids: Sequence[int]) -> bool:
    """Whether in any window more than 0.8 of the bigrams are repeats of others in it."""
    last = max(len(ids) - WINDOW, 0)
    return any(_loops(ids[start : start + WINDOW]) for start in range(last + 1))


def _loops(window: Sequence[int]) -> bool:
    return repetition([str(index) for index in window], 2) > MOST


def evaluate(
    model: PreTrainedModel, chat: ChatFormat, suite: Repetition, rows: Sequence[Row], *,
    seed: int, keep: Keep = drop,
) -> dict[str, float]:  # fmt: skip
    """`longest_repeat`: mean tokens of the longest run that comes twice; `repeated` and `looping`
    the shares of generations with a run of ten tokens, and with such a window.
    """
    ids = [reply.ids for reply in replies(model, chat, suite, rows, seed=seed)]
    runs = [longest_repeat(each) for each in ids]
    loops = [looping(each) for each in ids]
    scores = [float(n < suite.longest and not loop) for n, loop in zip(runs, loops, strict=True)]
    kept = by_prompt(scores, rows, lambda row: [row["task"]] if "task" in row else [])
    keep(kept)
    mean = statistics.fmean
    return summary(kept) | {
        "longest_repeat": mean(runs),
        "repeated": mean(run >= SHORTEST for run in runs),
        "looping": mean(loops),
        "mean_length": mean(map(len, ids)),
    }
