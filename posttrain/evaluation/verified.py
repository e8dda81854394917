"""Verified: how well a checkpoint's responses do by the verifier that each prompt names.

Always holds: a verifier is shown the text as in training, without its end marker; a response that
was not judged stops the measurement, for it is neither right nor wrong.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from transformers import PreTrainedModel

from posttrain.data.chat import ChatFormat
from posttrain.evaluation.prompts import Keep, by_prompt, drop, summary
from posttrain.evaluation.replies import Reply, Row, replies
from posttrain.evaluation.suites import Verified

Judge = Callable[[Sequence[Mapping[str, Any]]], Sequence[Mapping[str, Any]]]


def evaluate(
    model: PreTrainedModel, chat: ChatFormat, suite: Verified, rows: Sequence[Row], *, seed: int,
    judge: Judge, keep: Keep = drop,
) -> dict[str, float]:  # fmt: skip
    """`accuracy` is the mean score, `complete` the share of responses that end by themselves.

    With them come `standard_error`, `n`, `mean_length` (tokens), and figures of each task. The
    scores of each prompt go to `keep`. RuntimeError if a response was not judged.
    """
    tried = [row for row in rows for _ in range(suite.attempts)]
    found = replies(model, chat, suite, tried, seed=seed)
    kept = by_prompt(_scores(tried, found, chat, judge), rows, lambda row: [row["task"]])
    keep(kept)
    return summary(kept) | {
        "complete": sum(reply.finished for reply in found) / len(found),
        "mean_length": sum(len(reply.ids) for reply in found) / len(found),
    }


def _scores(
    rows: Sequence[Row], found: Sequence[Reply], chat: ChatFormat, judge: Judge
) -> list[float]:
    """The verdicts' scores; RuntimeError if one has none."""
    items = [
        {"id": str(index), "response": chat.spoken(reply.ids)}
        | {key: row[key] for key in ("verifier", "gold", "parameters")}
        for index, (row, reply) in enumerate(zip(rows, found, strict=True))
    ]
    verdicts = judge(items)
    if lost := [verdict for verdict in verdicts if verdict["status"] != "scored"]:
        raise RuntimeError(
            f"{len(lost)} of {len(items)} responses were not judged: {lost[0]['verifier']}: "
            f"{lost[0]['reason']}: {lost[0]['detail']}"
        )
    return [float(verdict["score"]) for verdict in verdicts]
