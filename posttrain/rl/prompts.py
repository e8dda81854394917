"""Prompts frozen as token ids: one JSON line each, rendered once before training starts.

A row is {"ids", "verifier", "gold", "parameters", "source", "task", "deliberation", "answer_tool"};
the last says whether the prompt offers that tool. The file is a function of the sources, the
tokenizer and the seed; verl's data loader reads it by position, so that a resumed run continues
with the next prompt.
"""

import json
import random
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from torch.utils.data import Dataset

from posttrain.data.chat import ChatFormat
from posttrain.data.turn import ANSWER_TOOL
from posttrain.rl.config import RlConfig, SourceConfig

Row = dict[str, Any]


def freeze(
    config: RlConfig, data: Mapping[str, Path], chat: ChatFormat, seed: int, target: Path
) -> int:
    """Write the prompts of all sources to `target`; returns their number.

    `data` maps a source's data name to its artifact folder. ValueError when a prompt exceeds
    `lengths.prompt`, lacks a gold answer, or there are fewer prompts than one step needs.
    """
    rows = [
        row
        for name, source in sorted(config.sources.items())
        for row in _of_source(name, source, data[source.data] / "train.jsonl", chat, seed)
    ]
    longest = max((len(row["ids"]) for row in rows), default=0)
    if longest > config.lengths.prompt:
        raise ValueError(
            f"a prompt has {longest} tokens; lengths.prompt is {config.lengths.prompt}"
        )
    if len(rows) < config.prompts_per_step:
        raise ValueError(
            f"{len(rows)} prompts in all, fewer than prompts_per_step = {config.prompts_per_step}"
        )
    target.write_text("".join(json.dumps(row, ensure_ascii=False) + "\n" for row in rows))
    return len(rows)


def _of_source(
    name: str, source: SourceConfig, path: Path, chat: ChatFormat, seed: int
) -> Iterator[Row]:
    draw = random.Random(f"deliberation {name} {seed}")
    for number, line in enumerate(path.open(encoding="utf-8"), start=1):
        row = json.loads(line)
        if not row.get("gold"):
            raise ValueError(f"source {name}, {path.name}:{number}: no gold answer")
        if source.thinking is not None:
            row["deliberation"] = draw.random() < source.thinking
        yield {
            "ids": chat.render(row, add_generation_prompt=True).ids,
            "verifier": source.verifier,
            "gold": row["gold"],
            "parameters": row.get("parameters", {}),
            "source": name,
            "task": row.get("task", name),
            "deliberation": row["deliberation"],
            "answer_tool": any(tool["name"] == ANSWER_TOOL for tool in row["tools"]),
        }


class PromptDataset(Dataset[Row]):
    """The frozen file for verl's loader: `raw_prompt` holds the ids, `item` the row's JSON."""

    def __init__(self, data_files: str, *args: Any, **kwargs: Any) -> None:
        self._lines = Path(data_files).read_text(encoding="utf-8").splitlines()

    def __len__(self) -> int:
        return len(self._lines)

    def __getitem__(self, index: int) -> Row:
        line = self._lines[index]
        return {"raw_prompt": json.loads(line)["ids"], "index": index, "item": line}
