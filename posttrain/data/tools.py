"""Tools declared in conversations that call none: so a model learns when not to call.

Always holds: which conversations get declarations, and which ones, depends on the seed, the rows
and the pool alone; a conversation that calls a tool, or has tools on offer already, stays as it is.
"""

import random
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from pydantic import BaseModel, ConfigDict, Field

from posttrain import digest
from posttrain.data import manifest, splits
from posttrain.data.conversation import turns
from posttrain.names import Name
from posttrain.quantities import Share

Rows = Iterator[Mapping[str, Any]]
Tool = Mapping[str, Any]


class Declared(BaseModel):
    """In a `share` of the conversations of `from` that call no tool, up to `most` are declared.

    They are drawn from all that the conversations of `pool` have on offer.
    """

    model_config = ConfigDict(extra="forbid", frozen=True)

    source: Name = Field(alias="from")
    pool: tuple[Name, ...] = Field(min_length=1)
    share: Share
    most: int = Field(default=3, ge=1, le=64)

    def inputs(self) -> dict[str, str]:
        """The conversations, and those whose tools are drawn from."""
        return {f"data.{name}": name for name in (self.source, *self.pool)}


def declare(
    seed: int, asked: Declared, folders: Mapping[str, Path]
) -> tuple[Mapping[str, Rows], Mapping[str, float]]:
    """The splits of `from`, whose training rows are changed as they are read.

    The figures count them while they are; ValueError if the pool has no tool.
    """
    pool = tools_of([folders[f"data.{name}"] for name in asked.pool])
    if not pool:
        raise ValueError(f"{', '.join(asked.pool)} offer no tools, so there is none to declare")
    folder = folders[f"data.{asked.source}"]
    every = {name: _rows(folder, name) for name in manifest.read(folder).splits}
    figures = {"tools": float(len(pool)), "calls_none": 0.0, "declared": 0.0}
    every["train"] = declared(every["train"], pool, seed, asked, figures)
    return every, figures


def tools_of(folders: list[Path]) -> list[Tool]:
    """Every tool on offer in the training rows, once, in the order of its first place."""
    found: dict[str, Tool] = {}
    for folder in folders:
        for row in _rows(folder, "train"):
            for tool in row.get("tools") or ():
                found.setdefault(digest.canonical(tool), tool)
    return list(found.values())


def declared(
    rows: Rows, pool: list[Tool], seed: int, asked: Declared, figures: dict[str, float]
) -> Rows:
    """The rows; `figures` counts those that call no tool and those that got declarations."""
    draw = random.Random(f"declared tools {seed}")
    for row in rows:
        if not _plain(row):
            yield row
            continue
        figures["calls_none"] += 1
        if draw.random() < asked.share:
            figures["declared"] += 1
            count = draw.randint(1, min(asked.most, len(pool)))
            row = {**row, "tools": draw.sample(pool, count)}
        yield row


def _plain(row: Mapping[str, Any]) -> bool:
    """Whether it is a conversation without tools, on offer or called."""
    if "messages" not in row or row.get("tools"):
        return False
    blocks = (block for turn in turns(row["messages"]) for block in turn.blocks)
    return not any(block.kind in ("tool_calls", "tool_outputs") for block in blocks)


def _rows(folder: Path, split: str) -> Rows:
    return splits.contents(folder / f"{split}.jsonl")
