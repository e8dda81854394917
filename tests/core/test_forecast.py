"""Forecasts of packed stages: full bins from counted tokens, or what is not known and why."""

import math
from dataclasses import replace
from pathlib import Path

import pytest
from transformers import AutoTokenizer

from posttrain.data import manifest
from posttrain.data.packing import pack
from posttrain.forecast import forecasts, lines
from posttrain.store import Artifact
from posttrain.training.examples import dialogues
from tests.core.executed import executed, planned
from tests.core.runs import write

RECIPE = """\
recipe: packed
seed: 1
backend: cpu
data:
  talk: {generate: tiny.dialogues, rows: 64}
  fit: {check: lint, from: talk, tokenizer: tokens}
stages:
  tokens: {kind: tokenizer, data: [talk], vocabulary: 600}
"""
SFT = """\
  sft:
    {kind: sft, from: base, data: fit, steps: 10, batch: 2, packing: {documents: 6},
     optimizer: {adamw: {lr: 1e-3}}}
"""
BASE = """\
  base:
    kind: pretrain
    model: {architecture: apertus, hidden: 32, layers: 1, heads: 2, feed_forward: 64,
            vocabulary: 600, context: 64}
    data: talk
    tokenizer: tokens
    steps: 5
    optimizer: {adamw: {lr: 1e-3}}
"""


@pytest.fixture(scope="module")
def done(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Artifact]:
    """The data, counted, in the store of a folder of its own."""
    return executed(write(tmp_path_factory.mktemp("packed"), RECIPE))


def _folder(done: dict[str, Artifact]) -> Path:
    return done["fit"].path.parents[4]


def told(folder: Path, *changes: str, base: str = BASE) -> str:
    """The line on the packed stage."""
    path = write(folder, RECIPE + SFT + base)
    [line] = lines(forecasts(planned(path, *changes)))
    return line


@pytest.mark.parametrize(("most", "stated"), [(6, None), (2, None), (6, 96)])
def test_bins_are_told_from_counted_tokens(
    done: dict[str, Artifact], most: int, stated: int | None
) -> None:
    """Of the checkpoint's context, or the stage's own; packed, they are hardly more."""
    changes = [f"stages.sft.packing.documents={most}"]
    changes += [f"stages.sft.context={{length: {stated}}}"] if stated else []
    split, capacity = manifest.read(done["fit"].path).splits["train"], (stated or 64) + 1
    assert split.tokens
    bins = max(math.ceil(split.tokens / capacity), math.ceil(split.rows / most))
    line = told(_folder(done), *changes)
    assert line.startswith(f"sft draws fit 100.0%: 20 bins, {20 / bins:.2f} epochs")
    assert line.endswith(f"(taking its {bins} bins of {capacity} tokens to be full)")
    tokenizer = AutoTokenizer.from_pretrained(done["tokens"].path)
    documents = dialogues(done["fit"].path / "train.jsonl", tokenizer, None)
    real = pack([len(each.ids) for each in documents], capacity, most)
    assert bins <= len(real) <= 1.25 * bins


def test_what_is_not_known_is_told(done: dict[str, Artifact], tmp_path: Path) -> None:
    unknown = "sft: what it draws of its data is unknown: "
    assert told(tmp_path) == f"{unknown}fit is not there yet, and its rows are not declared"
    line = told(tmp_path, "stages.sft.data=talk")
    assert line == f"{unknown}talk has uncounted tokens (a check with a `tokenizer` counts them)"
    line = told(_folder(done), base="  base: {kind: adopt, path: b}\n")
    assert line == f"{unknown}a bin is as long as the context of base, which is not there yet"


def test_a_checkpoint_that_is_there_tells_its_context(done: dict[str, Artifact]) -> None:
    """And of a finished stage its record is told, packed or not."""
    plan = planned(write(_folder(done), RECIPE + SFT + "  base: {kind: adopt, path: b}\n"))
    made = _folder(done) / "made/model"
    made.mkdir(parents=True)
    (made / "config.json").write_text('{"max_position_embeddings": 99}')
    facts = {"steps": 7, "shares": {"fit": 1.0}, "epochs": {"fit": 0.25}}
    there = Artifact(made.parent, done["fit"].record.model_copy(update={"facts": facts}))
    base = replace(plan.nodes["base"], cached=there)
    [line] = lines(forecasts(replace(plan, nodes={**plan.nodes, "base": base})))
    assert "bins of 100 tokens" in line
    sft = replace(plan.nodes["sft"], cached=there)
    [line] = lines(forecasts(replace(plan, nodes={**plan.nodes, "sft": sft})))
    assert line == "sft drew fit 100.0%: 0.25 epochs"
