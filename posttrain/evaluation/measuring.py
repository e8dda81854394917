"""Measuring a checkpoint on a suite: from held-out rows to figures.

Always holds: every figure is over all rows; a response that breaks the format is wrong, and one
that could not be judged stops the measurement: it is neither right nor wrong.
"""

import statistics
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from transformers import PreTrainedModel

from posttrain.data import splits
from posttrain.data.chat import ChatFormat, Rendered
from posttrain.data.documents import render_document
from posttrain.data.turn import ANSWER_TOOL, AssistantTurn, answers
from posttrain.evaluation import preferences
from posttrain.evaluation.generation import sample
from posttrain.evaluation.padding import padded
from posttrain.evaluation.prompts import Keep, by_prompt, drop
from posttrain.evaluation.suites import (
    Answers,
    Continuation,
    LongContext,
    Needles,
    Preference,
    Suite,
)
from rewards.wilson import interval

Row = Mapping[str, Any]

Judge = Callable[[Sequence[Mapping[str, Any]]], Sequence[Mapping[str, Any]]]
"""Verdicts for a list of items, as `POST /v1/score` of the reward service gives them."""


@dataclass(frozen=True)
class Attempt:
    """One response to the prompt `row`, as parsed; `length` in tokens, its end marker included."""

    row: Row
    turn: AssistantTurn
    length: int

    @property
    def answers(self) -> list[str] | None:
        """What it gives as answers; None if it gives none.

        They come through the answer tool, or, if its prompt does not offer that, are the parts of
        its text between commas.
        """
        if any(tool["name"] == ANSWER_TOOL for tool in self.row["tools"]):
            return answers(self.turn)
        if self.turn.error or not self.turn.content:
            return None
        return [part.strip() for part in self.turn.content.strip().removesuffix(".").split(",")]


def read_rows(suite: Suite, folder: Path) -> list[Row]:
    """The rows `suite` is measured on, from the folder of its data artifact.

    ValueError if they were made for another verifier than the suite's.
    """
    rows: list[Row] = list(splits.contents(folder / f"{suite.split}.jsonl"))
    wanted = suite.verifier if isinstance(suite, Answers) else None
    for number, row in enumerate(rows, start=1):
        if wanted and row["verifier"] != wanted:
            raise ValueError(
                f"{suite.data} row {number} is for verifier {row['verifier']!r}, "
                f"the suite asks for {wanted!r}; change the suite's verifier or data"
            )
    return rows


def evaluate(
    model: PreTrainedModel,
    chat: ChatFormat,
    suite: Suite,
    rows: Sequence[Row],
    *,
    seed: int,
    judge: Judge | None = None,
    keep: Keep = drop,
) -> dict[str, float]:
    """Figures of `model` on `suite`: always `accuracy`, `standard_error` and `n` (responses).

    Suites of prompts need `judge`, and add `format_rate`, `thinking_rate`, `mean_length` (tokens)
    and an `accuracy.GROUP` for each task, length or, of probes, both (`accuracy.needle.4096`).
    Where there are lengths, bounds at 95 % come with each group: `low.GROUP` and `high.GROUP`.
    The scores of each prompt go to `keep`. RuntimeError if a response was not judged.
    """
    if len(rows) < 2:
        raise ValueError(f"{suite.data} has {len(rows)} rows, too few for a standard error")
    if isinstance(suite, Continuation):
        exact = _continued(model, chat, rows)
        keep(by_prompt(exact, rows, _no_groups))
        return _summary([[score] for score in exact])
    if isinstance(suite, Preference):
        pairs = preferences.rendered(chat, rows, model.config.max_position_embeddings)
        sides = preferences.compare(model, pairs)
        keep(by_prompt([float(c > r) for c, r in sides], rows, _task_if_any))
        return preferences.figures(sides, pairs, rows)
    assert isinstance(suite, Answers | Needles | LongContext), (
        f"{suite.kind} is measured by a module of its own"
    )
    assert judge is not None, f"suite {suite.kind} needs a judge"
    attempts = respond(model, chat, suite, rows, seed=seed)
    scores = judged(attempts, judge)
    groups = GROUPS[suite.kind]
    keep(by_prompt(scores, rows, groups))
    found = figures(attempts, scores, groups)
    return found if isinstance(suite, Answers) else found | bounds(attempts, scores, groups)


def respond(
    model: PreTrainedModel,
    chat: ChatFormat,
    suite: Answers | Needles | LongContext,
    rows: Sequence[Row],
    *,
    seed: int,
) -> list[Attempt]:
    """All attempts at all prompts; those of one prompt follow one another."""
    count = suite.attempts if isinstance(suite, Answers) else 1
    tried = [row for row in rows for _ in range(count)]
    prompts = [chat.render(row, add_generation_prompt=True).ids for row in tried]  # type: ignore[arg-type]
    responses = sample(
        model,
        prompts,
        max_new_tokens=suite.max_new_tokens,
        temperature=suite.temperature if isinstance(suite, Answers) else 0.0,
        stop_ids=chat.stop_ids,
        seed=seed,
    )
    return [
        Attempt(row, chat.parse(response), len(response))
        for row, response in zip(tried, responses, strict=True)
    ]


def judged(attempts: Sequence[Attempt], judge: Judge) -> list[float]:
    """Score of each attempt; what gives no answer scores 0 and is not sent to `judge`."""
    items = {
        str(index): {
            "id": str(index),
            "verifier": attempt.row["verifier"],
            "response": None,
            "answers": given,
            "gold": attempt.row["gold"],
            "parameters": {},
        }
        for index, attempt in enumerate(attempts)
        if (given := attempt.answers) is not None
    }
    verdicts = {verdict["id"]: verdict for verdict in judge(list(items.values()))} if items else {}
    lacking = [key for key in items if verdicts.get(key, {}).get("status") != "scored"]
    if lacking:
        example = verdicts.get(lacking[0], {}).get("reason", "no verdict came back")
        raise RuntimeError(f"{len(lacking)} of {len(items)} answers were not scored: {example}")
    return [
        float(verdicts[str(index)]["score"]) if str(index) in items else 0.0
        for index in range(len(attempts))
    ]


GROUPS: Mapping[str, Callable[[Row], Sequence[object]]] = {
    "answers": lambda row: [row["task"]],
    "needles": lambda row: [row["length"]],
    "long_context": lambda row: [row["length"], row["task"], f"{row['task']}.{row['length']}"],
}
"""The groups that a row belongs to, by the kind of suite."""


def _no_groups(row: Row) -> Sequence[object]:
    return ()


def _task_if_any(row: Row) -> Sequence[object]:
    return [row["task"]] if "task" in row else []


def figures(
    attempts: Sequence[Attempt], scores: Sequence[float], groups: Callable[[Row], Sequence[object]]
) -> dict[str, float]:
    """Figures of scored attempts, in all and for each of the `groups` that a row belongs to."""
    by_prompt: dict[int, list[float]] = {}
    for attempt, score in zip(attempts, scores, strict=True):
        by_prompt.setdefault(id(attempt.row), []).append(score)
    by_group = grouped(attempts, scores, groups)
    mean = statistics.fmean
    return {
        **_summary(list(by_prompt.values())),
        "format_rate": mean(attempt.answers is not None for attempt in attempts),
        "thinking_rate": mean(attempt.turn.thoughts is not None for attempt in attempts),
        "mean_length": mean(attempt.length for attempt in attempts),
        **{f"accuracy.{name}": mean(found) for name, found in by_group.items()},
    }


def bounds(
    attempts: Sequence[Attempt], scores: Sequence[float], groups: Callable[[Row], Sequence[object]]
) -> dict[str, float]:
    """`low.GROUP` and `high.GROUP`: Wilson's interval for each group's accuracy.

    It is for one attempt at each prompt, and scores of 0 and 1.
    """
    found: dict[str, float] = {}
    for name, group in grouped(attempts, scores, groups).items():
        low, high = interval(round(sum(group)), len(group))
        found |= {f"low.{name}": low, f"high.{name}": high}
    return found


def grouped(
    attempts: Sequence[Attempt], scores: Sequence[float], groups: Callable[[Row], Sequence[object]]
) -> dict[str, list[float]]:
    """The scores of each group, sorted by its name."""
    found: dict[str, list[float]] = {}
    for attempt, score in zip(attempts, scores, strict=True):
        for group in groups(attempt.row):
            found.setdefault(str(group), []).append(score)
    return dict(sorted(found.items()))


def _summary(scores: Sequence[Sequence[float]]) -> dict[str, float]:
    """Mean over prompts. Attempts at one prompt are alike, so the error is that of prompt means."""
    means = [statistics.fmean(attempts) for attempts in scores]
    spread = statistics.stdev(means)
    return {
        "accuracy": statistics.fmean(means),
        "standard_error": spread / len(means) ** 0.5,
        "n": float(sum(map(len, scores))),
    }


@torch.no_grad()
def _continued(model: PreTrainedModel, chat: ChatFormat, rows: Sequence[Row]) -> list[float]:
    """1.0 for each document whose every target token is the likeliest, given those before it.

    That is what generating with temperature 0 would give, in one pass.
    """
    training = model.training
    model.eval()
    documents = [render_document(chat, row) for row in rows]  # type: ignore[arg-type]
    batches = [documents[start : start + 128] for start in range(0, len(documents), 128)]
    try:
        return [score for batch in batches for score in _exact(model, batch)]
    finally:
        model.train(training)


def _exact(model: PreTrainedModel, documents: Sequence[Rendered]) -> list[float]:
    ids, mask = padded(documents, model.device)
    likeliest = model(input_ids=ids, use_cache=False).logits[:, :-1].argmax(-1)
    right = (likeliest == ids[:, 1:]) | ~mask[:, 1:]
    return [float(whole) for whole in right.all(1).tolist()]
