"""How sensitive a prompt is, from 0 to 3, and which prompts a class keeps.

0: it has one objective answer. 1: there is broad consensus. 2: the framing of answers would differ
between people. 3: what they say would differ. Always holds: a prompt without a class is in no part.
"""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from posttrain.data.turn import AssistantTurn
from posttrain.judging.opinions import Judge, Opinion, prompt_text

HIGHEST = 3


def opinions(judge: Judge, rows: Sequence[Mapping[str, Any]]) -> list[Opinion]:
    """What the classifier finds of each prompt: to it, the prompt is the text to judge."""
    plain = [{**row, "gold": None} for row in rows]
    return judge.opinions(plain, [AssistantTurn(content=prompt_text(row)) for row in rows])


def classed(found: Opinion, scale: int) -> int | None:
    """The class nearest to `scale` times the score; None if there is no score or no such class.

    The judge's grades of 1 to 4 are classes 0 to 3 with a `scale` of 4, as grade 5 is a score of 1.
    """
    if found.score is None:
        return None
    nearest = round(found.score * scale)
    return nearest if 0 <= nearest <= HIGHEST else None


def faulted(found: Opinion, scale: int) -> Opinion:
    """The opinion, without its score if that is no class."""
    if found.score is None or classed(found, scale) is not None:
        return found
    return replace(found, score=None, fault=f"score {found.score} is no class from 0 to {HIGHEST}")


def figures(classes: Sequence[int | None], kept: int) -> dict[str, float]:
    """Prompts of each class, of none, and how many are kept."""
    counts = Counter("none" if each is None else str(each) for each in classes)
    return {f"class.{name}": float(count) for name, count in sorted(counts.items())} | {
        "kept": float(kept)
    }
