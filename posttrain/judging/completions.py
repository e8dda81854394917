"""Completions of prompts as an artifact holds them, and verdicts on them.

A line of `completions.jsonl` is {"row", "sample", "prompt", "ids", "turn"}: the prompt's place and
content, which of its completions this is, its token ids, and what they say as parsed by id. A line
of `scores.jsonl` is {"row", "sample", "score", "feedback", "article", "fault"}: `score` is null
where the judge failed, and `fault` says why.
"""

import json
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any

from posttrain.data.turn import AssistantTurn
from posttrain.judging.opinions import Opinion
from rewards.calls import Call

COMPLETIONS, SCORES = "completions.jsonl", "scores.jsonl"


def write(path: Path, lines: Iterable[Mapping[str, Any]]) -> None:
    """Write lines as JSON."""
    with path.open("w", encoding="utf-8") as stream:
        for line in lines:
            stream.write(json.dumps(line, ensure_ascii=False) + "\n")


def read(path: Path) -> Iterator[dict[str, Any]]:
    """The lines of a file."""
    with path.open(encoding="utf-8") as stream:
        for line in stream:
            yield json.loads(line)


def line(
    row: int, sample: int, prompt: Mapping[str, Any], ids: list[int], turn: AssistantTurn
) -> dict[str, Any]:
    """The line of a completion."""
    return {"row": row, "sample": sample, "prompt": prompt, "ids": ids, "turn": asdict(turn)}


def turn(of: Mapping[str, Any]) -> AssistantTurn:
    """The turn in a completion's line."""
    calls = tuple(Call(**call) for call in of["turn"]["tool_calls"])
    return AssistantTurn(**{**of["turn"], "tool_calls": calls})


def told(of: Mapping[str, Any], found: Opinion) -> dict[str, Any]:
    """The line of an opinion on a completion."""
    return {"row": of["row"], "sample": of["sample"], **asdict(found)}


def check(found: Iterable[Opinion], most: float) -> dict[str, float]:
    """`score`, its mean, and `unjudged`, a share; RuntimeError if that is above `most`."""
    opinions = list(found)
    scores = [each.score for each in opinions if each.score is not None]
    lost = [each.fault for each in opinions if each.score is None]
    if len(lost) > most * len(opinions):
        common = Counter(lost).most_common(1)[0][0]
        raise RuntimeError(
            f"{len(lost)} of {len(opinions)} completions were not judged (unjudged is at most "
            f"{most:.0%}): {common}; mend the judge and run the same command to go on"
        )
    return {
        "score": sum(scores) / max(len(scores), 1), "unjudged": len(lost) / max(len(opinions), 1),
    }  # fmt: skip
