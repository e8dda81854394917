"""Checkpoints that a stage keeps on its way, each with the facts a later stage compares with.

In the work folder and in the artifact they lie at `checkpoints/<step>`: `model/` and `facts.json`.
One is there whole or not at all, and a run that is continued writes those of its steps anew.
"""

import json
import os
import shutil
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple

from transformers import PreTrainedModel
from transformers import PreTrainedTokenizerBase as Tokenizer

from posttrain.training import checkpoint

_FOLDER, _FACTS = "checkpoints", "facts.json"


class Kept(NamedTuple):
    """The checkpoint after `step` steps; its model is in `path`/model."""

    step: int
    path: Path
    facts: Mapping[str, Any]


def keep(work: Path, step: int, model: PreTrainedModel, tokenizer: Tokenizer) -> None:
    """Keep the checkpoint after `step` steps; after a crash it is whole, or is written again."""
    target = work / _FOLDER / str(step)
    half = work / f".{_FOLDER}.{step}"
    for old in (half, target):
        shutil.rmtree(old, ignore_errors=True)
    half.mkdir()
    facts = checkpoint.save_model(model, tokenizer, half / "model")
    (half / _FACTS).write_text(json.dumps(facts, indent=1), encoding="utf-8")
    target.parent.mkdir(exist_ok=True)
    half.rename(target)


def hand_over(work: Path, output: Path) -> list[int]:
    """Put what was kept into the artifact; returns its steps. The work stays until the commit."""
    if (work / _FOLDER).is_dir():
        shutil.copytree(work / _FOLDER, output / _FOLDER, copy_function=os.link)
    return [each.step for each in kept(output)]


def kept(artifact: Path) -> Iterator[Kept]:
    """What the artifact in folder `artifact` keeps beside its own model, by step."""
    folder = artifact / _FOLDER
    steps = sorted(int(path.name) for path in folder.iterdir()) if folder.is_dir() else []
    for step in steps:
        path = folder / str(step)
        yield Kept(step, path, json.loads((path / _FACTS).read_bytes()))
