"""Adherence: how often a checkpoint's responses keep a charter's articles, by the rule judge.

Always holds: every figure is over all rows; a response that says nothing keeps no article, and one
that could not be judged stops the measurement.
"""

import statistics
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from transformers import PreTrainedModel

from posttrain.charter import Charter, asking
from posttrain.data.chat import ChatFormat
from posttrain.evaluation.generation import sample
from posttrain.evaluation.prompts import Keep, by_prompt, drop
from posttrain.evaluation.suites import Adherence

Row = Mapping[str, Any]
Judge = Callable[[Sequence[Mapping[str, Any]]], Sequence[Mapping[str, Any]]]


def evaluate(
    model: PreTrainedModel, chat: ChatFormat, suite: Adherence, rows: Sequence[Row],
    charter: Charter, *, seed: int, judge: Judge, keep: Keep = drop,
) -> dict[str, float]:  # fmt: skip
    """`accuracy` is the share of responses that keep all of the suite's articles.

    `accuracy.ARTICLE` is that of one; with them come `standard_error`, `n`, `mean_length` (tokens).
    The score of each prompt goes to `keep`. RuntimeError if a response was not judged.
    """
    if len(rows) < 2:
        raise ValueError(f"{suite.data} has {len(rows)} rows, too few for a standard error")
    responses = sample(
        model,
        [chat.render(row, add_generation_prompt=True).ids for row in rows],  # type: ignore[arg-type]
        max_new_tokens=suite.max_new_tokens, temperature=suite.temperature,
        stop_ids=chat.stop_ids, seed=seed,
    )  # fmt: skip
    texts = [chat.parse(response).content or "" for response in responses]
    verdicts = judge(items(texts, charter, suite.articles))
    lost = [verdict for verdict in verdicts if verdict["status"] != "scored"]
    if lost:
        raise RuntimeError(
            f"{len(lost)} of {len(texts)} responses were not judged: {lost[0]['reason']}: "
            f"{lost[0]['detail']}"
        )
    scores = [float(verdict["score"]) for verdict in verdicts]
    keep(by_prompt(scores, rows, lambda row: [row["task"]] if "task" in row else []))
    return figures(verdicts) | {"mean_length": statistics.fmean(map(len, responses))}


def items(
    texts: Sequence[str], charter: Charter, articles: Sequence[str] | None
) -> list[dict[str, Any]]:
    """What the rule judge is asked about each text."""
    parameters = asking.rules(charter, articles)
    return [
        {"id": str(index), "verifier": asking.RULES, "response": text, "parameters": parameters}
        for index, text in enumerate(texts)
    ]


def figures(verdicts: Sequence[Mapping[str, Any]]) -> dict[str, float]:
    """The figures of verdicts that have scores."""
    scores = [float(verdict["score"]) for verdict in verdicts]
    mean = statistics.fmean
    return {
        "accuracy": mean(scores),
        "standard_error": statistics.stdev(scores) / len(scores) ** 0.5,
        "n": float(len(scores)),
        **{
            f"accuracy.{article}": mean(verdict["parts"][article] for verdict in verdicts)
            for article in verdicts[0]["parts"]
        },
    }
