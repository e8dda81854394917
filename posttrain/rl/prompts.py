"""Prompts frozen as token ids: one JSON line each, rendered once before training starts.

A row is {"ids", "verifier", "gold", "parameters", "source", "task", "deliberation", "answer_tool"};
the last says whether the prompt offers that tool. The file is a function of the sources, the
tokenizer and the seed; rows of a source are together, and `posttrain.rl.order` says which is next.
"""

import json
import random
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from torch.utils.data import Dataset

from posttrain.data import splits
from posttrain.data.chat import ChatFormat
from posttrain.data.turn import ANSWER_TOOL
from posttrain.evaluation.measuring import read_rows
from posttrain.evaluation.suites import Answers, Suite
from posttrain.rl.config import RlConfig, SourceConfig
from posttrain.rl.tools import DECLARED

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
        for row in _of_source(
            name, source, data[source.data] / "train.jsonl", chat, seed, _declared(config)
        )
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


def _declared(config: RlConfig) -> list[Mapping[str, Any]]:
    return [DECLARED[name] for name in config.turns.tools] if config.turns else []


def _of_source(
    name: str, source: SourceConfig, path: Path, chat: ChatFormat, seed: int,
    tools: Sequence[Mapping[str, Any]],
) -> Iterator[Row]:  # fmt: skip
    draw = random.Random(f"deliberation {name} {seed}")
    row: Any
    for number, row in enumerate(splits.contents(path), start=1):
        if not row.get("gold"):
            raise ValueError(f"source {name}, {path.name}:{number}: no gold answer")
        if source.thinking is not None:
            row["deliberation"] = draw.random() < source.thinking
        own = {tool["name"] for tool in row["tools"]}
        row["tools"] = [*row["tools"], *(tool for tool in tools if tool["name"] not in own)]
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


def hold_out(
    config: RlConfig, suites: Mapping[str, Suite], data: Mapping[str, Path], chat: ChatFormat,
    target: Path,
) -> int:  # fmt: skip
    """Write the prompts of the held-out `suites` to `target`; returns their number.

    `data` has the folders of the sources' data by name, and those of the suites' by `suite.NAME`.
    ValueError if a suite is not one of answers, its prompt does not fit, or one is trained on:
    equal but for case and spacing. Near repetitions are found by a stage of kind `check`.
    """
    trained = {
        _asked(row): f"source {name}, row {number}"
        for name, source in sorted(config.sources.items())
        for number, row in enumerate(splits.contents(data[source.data] / "train.jsonl"), start=1)
    }
    rows = []
    for name, suite in suites.items():
        if not isinstance(suite, Answers):
            raise ValueError(f"suite {name} is of kind {suite.kind}; RL watches those of answers")
        for number, row in enumerate(read_rows(suite, data[f"suite.{name}"]), start=1):
            if (place := trained.get(_asked(row))) is not None:
                raise ValueError(
                    f"suite {name}, {suite.data} row {number} is trained on ({place}); what is "
                    "held out must not be"
                )
            rows.append(_tried(name, suite, row, chat))
    _require_room(config, rows)
    target.write_text("".join(json.dumps(row, ensure_ascii=False) + "\n" for row in rows))
    return len(rows)


def _asked(row: Mapping[str, Any]) -> str:
    """What a row asks, without case and spacing."""
    return " ".join(" ".join(turn.get("content") or "" for turn in row["messages"]).split()).lower()


def _tried(name: str, suite: Answers, row: Mapping[str, Any], chat: ChatFormat) -> Row:
    quiet: Any = {**row, "deliberation": False}
    return {
        "suite": name,
        "ids": chat.render(quiet, add_generation_prompt=True).ids,
        "verifier": suite.verifier,
        "gold": row["gold"],
        "parameters": row.get("parameters", {}),
        "answer_tool": any(tool["name"] == ANSWER_TOOL for tool in row["tools"]),
        "attempts": suite.attempts,
        "temperature": suite.temperature,
        "max_new_tokens": suite.max_new_tokens,
    }


def _require_room(config: RlConfig, rows: Sequence[Row]) -> None:
    room = config.lengths.prompt + config.lengths.response
    longest = max((len(row["ids"]) + row["max_new_tokens"] for row in rows), default=0)
    if longest > room:
        raise ValueError(
            f"a held-out prompt and its response take {longest} tokens, lengths.prompt and "
            f"lengths.response together {room}"
        )


class PromptDataset(Dataset[Row]):
    """The frozen file for verl's loader: `raw_prompt` holds the ids, `item` the row's JSON."""

    def __init__(self, data_files: str, *args: Any, **kwargs: Any) -> None:
        self._lines = Path(data_files).read_text(encoding="utf-8").split("\n")[:-1]

    def __len__(self) -> int:
        return len(self._lines)

    def source(self, index: int) -> str:
        """The source of a row."""
        return str(json.loads(self._lines[index])["source"])

    def __getitem__(self, index: int) -> Row:
        line = self._lines[index]
        return {"raw_prompt": json.loads(line)["ids"], "index": index, "item": line}
