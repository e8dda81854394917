"""Best against worst: the pair that a prompt's judged responses give.

Always holds: what the judge did not score is in no pair; of equals nothing is better.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from posttrain.judging.opinions import Opinion


@dataclass(frozen=True)
class Rivals:
    """Of one prompt, by its row: the places of the best and the worst response in the step."""

    row: int
    best: int
    worst: int


def rivals(drawn: Sequence[int], group: int, opinions: Sequence[Opinion]) -> list[Rivals]:
    """The pairs of a step, of each drawn prompt at most one; the first of equals counts.

    The `group` responses to one prompt follow one another. A prompt gives no pair where less than
    two of them have a score, or all the same.
    """
    found = []
    for at, row in enumerate(drawn):
        scores = {
            place: score
            for place in range(at * group, (at + 1) * group)
            if (score := opinions[place].score) is not None
        }
        if len(set(scores.values())) > 1:
            best, worst = (pick(scores, key=lambda place: scores[place]) for pick in (max, min))
            found.append(Rivals(row, best, worst))
    return found


def figures(
    drawn: Sequence[int], opinions: Sequence[Opinion], found: Sequence[Rivals]
) -> dict[str, float]:
    """`score`, the mean of those there are; `unscored` and `alike`, shares; `gap`, a mean."""
    scores = [each.score for each in opinions if each.score is not None]
    gaps = [(opinions[each.best].score or 0) - (opinions[each.worst].score or 0) for each in found]
    return {
        "score": sum(scores) / max(len(scores), 1),
        "gap": sum(gaps) / max(len(gaps), 1),
        "unscored": 1 - len(scores) / len(opinions),
        "alike": 1 - len(found) / len(drawn),
    }


def check(opinions: Sequence[Opinion], most: float, step: int) -> None:
    """RuntimeError if more than the share `most` of a step's responses has no score."""
    lost = [each.fault for each in opinions if each.score is None]
    if len(lost) > most * len(opinions):
        raise RuntimeError(
            f"step {step}: {len(lost)} of {len(opinions)} responses have no score (at most "
            f"{most:.0%} may): {lost[0][:200]}; mend the judge and run the same command to go on"
        )


def archived(
    prompts: Sequence[Mapping[str, Any]], found: Sequence[Rivals], opinions: Sequence[Opinion],
    texts: Sequence[str],
) -> list[dict[str, Any]]:  # fmt: skip
    """A line for each pair: what was asked, said and scored."""
    return [
        {
            "prompt": prompts[each.row]["messages"],
            "chosen": {"text": texts[each.best], "score": opinions[each.best].score},
            "rejected": {"text": texts[each.worst], "score": opinions[each.worst].score},
        }
        for each in found
    ]  # fmt: skip
