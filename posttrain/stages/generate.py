"""Generate: completions of a checkpoint for prompts, `n` of each, as an artifact."""

import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from pydantic import Field, PositiveInt

from posttrain import digest
from posttrain.data import splits
from posttrain.judging import completions
from posttrain.names import Name
from posttrain.stages import Outcome, Progress, StageConfig, StageContext
from posttrain.store import write_durably

VERSION = 2

_CHUNK = 128
"""Completions between two saves."""


class Config(StageConfig):
    """The train split of `data` is completed; `temperature` 0 takes the likeliest token."""

    source: str = Field(alias="from")
    data: Name
    n: PositiveInt = 1
    temperature: float = Field(default=1.0, ge=0, le=2)
    max_new_tokens: PositiveInt
    threads: PositiveInt = 1

    def inputs(self) -> dict[str, str]:
        """The checkpoint and the prompts."""
        return {"from": self.source, f"data.{self.data}": self.data}

    def cores(self) -> int:
        """One per thread."""
        return self.threads


def run(context: StageContext[Config]) -> Outcome:
    """Complete chunk by chunk; a chunk that is done is not done again."""
    from posttrain.data.chat import ChatFormat
    from posttrain.training.checkpoint import load_model, load_tokenizer
    from posttrain.training.process import threads

    config, start = context.config, context.inputs["from"]
    facts = start.record.facts
    model = load_model(start.path, facts)
    chat = ChatFormat.from_tokenizer(load_tokenizer(start.path, facts))
    rows = list(splits.contents(context.inputs[f"data.{config.data}"].path / "train.jsonl"))
    places = [(row, sample) for row in range(len(rows)) for sample in range(config.n)]
    found: list[dict[str, Any]] = []
    with threads(config.threads):
        for first in range(0, len(places), _CHUNK):
            found += _chunk(context, model, chat, rows, places[first : first + _CHUNK], first)
            context.report(Progress(len(found), len(places), phase="generate"))
    completions.write(context.output / completions.COMPLETIONS, found)
    return Outcome(_figures(found), {"policy": facts["weights_sha256"]})


def _chunk(
    context: StageContext[Config], model: Any, chat: Any, rows: Sequence[Mapping[str, Any]],
    places: Sequence[tuple[int, int]], first: int,
) -> list[dict[str, Any]]:  # fmt: skip
    """The lines of a chunk: kept ones, or new ones, which are kept."""
    from posttrain.evaluation.generation import sample

    path, config = context.work / f"{first}.json", context.config
    if path.is_file():
        lines: list[dict[str, Any]] = json.loads(path.read_text("utf-8"))
        return lines
    prompts = [{"tools": [], "deliberation": False, **rows[row]} for row, _ in places]
    responses = sample(
        model, [chat.render(each, add_generation_prompt=True).ids for each in prompts],
        max_new_tokens=config.max_new_tokens, temperature=config.temperature,
        stop_ids=chat.stop_ids, seed=int(digest.of_value([context.seed, first])[:15], 16),
    )  # fmt: skip
    lines = list(_lines(places, prompts, responses, chat))
    write_durably(path, json.dumps(lines, ensure_ascii=False))
    return lines


def _lines(
    places: Sequence[tuple[int, int]], prompts: Sequence[Mapping[str, Any]],
    responses: Sequence[list[int]], chat: Any,
) -> Iterator[dict[str, Any]]:  # fmt: skip
    from posttrain.judging.speech import said

    for (row, number), prompt, ids in zip(places, prompts, responses, strict=True):
        yield completions.line(row, number, prompt, ids, said(chat, ids))


def _figures(found: Sequence[Mapping[str, Any]]) -> dict[str, float]:
    count = len(found)
    return {
        "completions": float(count),
        "complete": sum(line["turn"]["complete"] for line in found) / count,
        "mean_length": sum(len(line["ids"]) for line in found) / count,
    }
