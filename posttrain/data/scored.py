"""Completions of prompts with their scores, from the artifacts that hold them.

Always holds: a completion without a score, one that was cut and one that says nothing are told and
left out only within a bound; a prompt is used only if enough of its completions are left.
"""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby
from pathlib import Path
from typing import Any, Literal, cast

from posttrain.data.chat import ChatFormat, Conversation, Rendered
from posttrain.data.pairs import Groups
from posttrain.judging import completions

Select = Literal["extremes", "all"]


@dataclass(frozen=True)
class Sampled:
    """Completions of one prompt, prompt included, and of each its number among all of them."""

    sides: tuple[Rendered, ...]
    samples: tuple[int, ...]


@dataclass(frozen=True)
class Scored(Sampled):
    """With a score each; `references` are all scores of the prompt's completions."""

    scores: tuple[float, ...]
    references: tuple[float, ...]


@dataclass(frozen=True)
class _One:
    row: int
    sample: int
    document: Rendered
    score: float


def read_sampled(folder: Path, chat: ChatFormat) -> Groups:
    """All completions of the artifact `folder` by prompt, usable or not."""
    lines = completions.read(folder / completions.COMPLETIONS)
    groups, rows = [], []
    for row, found in groupby(lines, key=lambda line: line["row"]):
        given = list(found)
        sides = tuple(_rendered(chat, line) for line in given)
        groups.append(Sampled(sides, tuple(line["sample"] for line in given)))
        rows.append(row)
    return Groups(groups, rows, {})


def read_scored(
    folder: Path, scores: Path, chat: ChatFormat, longest: int,
    *, select: Select, drop_at_most: float,
) -> Groups:  # fmt: skip
    """The completions of the artifact `folder` by prompt, scored by the artifact `scores`.

    `extremes` takes the best and the worst of each prompt, and none where they score the same; the
    first of equals. ValueError if more than the share `drop_at_most` of the completions is not
    usable, or if the scores are of others.
    """
    lines = list(completions.read(folder / completions.COMPLETIONS))
    verdicts = list(completions.read(scores / completions.SCORES))
    if [_place(each) for each in lines] != [_place(each) for each in verdicts]:
        raise ValueError(f"the scores in {scores} are of other completions than those in {folder}")
    documents = [_rendered(chat, line) for line in lines]
    reasons = [
        _fault(line, verdict, len(document.ids) > longest)
        for line, verdict, document in zip(lines, verdicts, documents, strict=True)
    ]
    counts = Counter(reason for reason in reasons if reason)
    if counts.total() > drop_at_most * len(lines):
        told = ", ".join(f"{name} {count}" for name, count in sorted(counts.items()))
        raise ValueError(
            f"{counts.total()} of {len(lines)} completions in {folder} cannot be trained on "
            f"({told}); repair them or raise drop_at_most (now {drop_at_most:.2%})"
        )
    usable = [
        _One(*_place(line), document, verdict["score"])
        for line, verdict, document, reason in zip(lines, verdicts, documents, reasons, strict=True)
        if reason is None
    ]
    return _grouped(usable, select, counts)


def _place(line: Mapping[str, Any]) -> tuple[int, int]:
    return line["row"], line["sample"]


def _fault(line: Mapping[str, Any], verdict: Mapping[str, Any], too_long: bool) -> str | None:
    faults = {
        "unscored": verdict["score"] is None, "incomplete": not line["turn"]["complete"],
        "empty": len(line["ids"]) < 2, "too_long": too_long,
    }  # fmt: skip
    return next((name for name, found in faults.items() if found), None)


def _rendered(chat: ChatFormat, line: Mapping[str, Any]) -> Rendered:
    prompt = chat.render(cast(Conversation, line["prompt"]), add_generation_prompt=True).ids
    return Rendered(prompt + line["ids"], [0] * len(prompt) + [1] * len(line["ids"]))


def _grouped(usable: Iterable[_One], select: Select, dropped: Counter[str]) -> Groups:
    groups, rows = [], []
    for row, found in groupby(usable, key=lambda each: each.row):
        given = list(found)
        chosen = _extremes(given) if select == "extremes" else given
        if len(chosen) < 2:
            dropped["alike"] += 1
            continue
        rows.append(row)
        groups.append(
            Scored(
                tuple(each.document for each in chosen), tuple(each.sample for each in chosen),
                tuple(each.score for each in chosen), tuple(each.score for each in given),
            )
        )  # fmt: skip
    if not groups:
        raise ValueError("no prompt has two completions that score differently")
    return Groups(groups, rows, dict(sorted(dropped.items())))


def _extremes(given: Sequence[_One]) -> list[_One]:
    best, worst = (pick(given, key=lambda each: each.score) for pick in (max, min))
    return [best, worst] if best.score > worst.score else []
