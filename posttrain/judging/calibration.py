"""How well a judge judges: its scores against ladders whose order is known, and against itself.

Always holds: what was not judged is no agreement: it stops the calibration.
"""

import random
import statistics
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from posttrain.data.turn import AssistantTurn
from posttrain.judging import ladder
from posttrain.judging.agreement import kendall, spearman
from posttrain.judging.opinions import Judge
from rewards.rules import Rule

Row = Mapping[str, Any]


def responses(rows: Sequence[Row]) -> Iterator[tuple[Row, str]]:
    """Prompt and good response of each dialogue; ValueError names one that ends otherwise."""
    for number, row in enumerate(rows, 1):
        last = row["messages"][-1]
        if last["role"] != "assistant" or not (last.get("content") or "").strip():
            raise ValueError(f"row {number} does not end with what an assistant says")
        yield {**row, "messages": row["messages"][:-1]}, last["content"]


def calibrate(
    judge: Judge, rows: Sequence[Row], rungs: int, seed: int, rules: Sequence[Rule] = ()
) -> dict[str, float]:
    """Figures of `judge` on ladders that begin with the good responses of `rows`.

    `spearman` and `kendall` are means over the ladders of the agreement with the known order,
    `consistency` is 1 less the mean difference of two scores of the same response, and
    `position_bias` by how much more a flaw at the start of a response costs than one at its end.
    RuntimeError if a response was not judged.
    """
    if not rows:
        raise ValueError("there are no dialogues to make ladders of")
    draw = random.Random(f"ladders {seed}")
    good = list(responses(rows))
    ladders = [ladder.ladder(text, rungs, draw, rules) for _, text in good]
    prompts = [prompt for prompt, _ in good]
    grades = _grades(
        judge, [(prompt, text) for prompt, texts in zip(prompts, ladders, strict=True)
                for text in texts]
    )  # fmt: skip
    size, known = rungs + 1, [float(-rung) for rung in range(rungs + 1)]
    found = [grades[start : start + size] for start in range(0, len(grades), size)]
    again = _grades(judge, list(zip(prompts, [texts[0] for texts in ladders], strict=True)))
    mean = statistics.fmean
    return {
        "spearman": mean(spearman(known, each) for each in found),
        "kendall": mean(kendall(known, each) for each in found),
        "consistency": 1 - mean(abs(a - b[0]) for a, b in zip(again, found, strict=True)),
        "position_bias": _position_bias(judge, prompts, [texts[0] for texts in ladders]),
        "ladders": float(len(found)),
    }


def _position_bias(judge: Judge, prompts: Sequence[Row], texts: Sequence[str]) -> float:
    """Mean score with a digression at the end, less that with the same one at the start."""
    aside = "My neighbour has a new bicycle."
    means = [
        statistics.fmean(_grades(judge, list(zip(prompts, worse, strict=True))))
        for worse in ([f"{text} {aside}" for text in texts], [f"{aside} {text}" for text in texts])
    ]
    return means[0] - means[1]


def _grades(judge: Judge, asked: Sequence[tuple[Row, str]]) -> list[float]:
    turns = [AssistantTurn(content=text, complete=True) for _, text in asked]
    found = judge.opinions([prompt for prompt, _ in asked], turns)
    if lost := [each.fault for each in found if each.grade is None]:
        raise RuntimeError(f"{len(lost)} of {len(found)} responses were not judged: {lost[0]}")
    return [each.grade for each in found if each.grade is not None]


def shortfalls(figures: Mapping[str, float], least: Mapping[str, float]) -> list[str]:
    """What a judge lacks: one line for each figure below what is required of it."""
    return [
        f"{name} is {figures[name]:.2f}, required is {bar:.2f}"
        for name, bar in least.items()
        if not figures[name] >= bar
    ]
