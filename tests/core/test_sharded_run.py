"""A whole run on data in many shards: every stage that reads rows gets what it would from one."""

from pathlib import Path

import pytest

from posttrain.data import manifest, shards
from posttrain.store import Artifact
from tests.core.executed import executed
from tests.core.runs import ended, write

RECIPE = """\
recipe: sharded
seed: 1
backend: cpu
data:
  corpus: {generate: tiny.corpus, documents: 60, holdout: 8}
  dialogues: {generate: tiny.dialogues, rows: 40}
  pairs: {generate: tiny.pairs, rows: 12}
  talk: {check: duplicates, from: dialogues, tokenizer: tokens}
  offered: {generate: tools.declared, from: talk, pool: [dialogues], share: 50%}
suites:
  chains: {kind: continuation, data: corpus.holdout}
stages:
  tokens: {kind: tokenizer, data: [corpus, dialogues], vocabulary: 600}
  base:
    kind: pretrain
    tokenizer: tokens
    model:
      {architecture: apertus, hidden: 32, layers: 2, heads: 2, feed_forward: 64, vocabulary: 600,
       context: 512}
    data: corpus
    steps: {at_most: 4, until: {suite: chains, at_least: 100%, every: 1}}
    batch: 4
    optimizer: {adamw: {lr: 1e-3}}
  sft:
    {kind: sft, from: base, data: offered, steps: 3, batch: 4, optimizer: {adamw: {lr: 1e-3}}}
  dpo:
    kind: dpo
    from: sft
    data: pairs
    steps: 2
    batch: 2
    objective: {beta: 0.1}
    optimizer: {adamw: {lr: 1e-4}}
    guards: {moves_within: 5}
  said: {kind: generate, from: sft, data: talk, max_new_tokens: 2}
"""


def run(folder: Path) -> dict[str, Artifact]:
    folder.mkdir()
    return executed(write(folder, RECIPE))


def test_no_stage_sees_how_its_data_are_cut(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    whole = run(tmp_path / "whole")
    monkeypatch.setattr(shards, "MOST_BYTES", 2000)
    cut = run(tmp_path / "cut")
    for name, artifact in cut.items():
        other, record = whole[name].record, artifact.record
        assert record.metrics == other.metrics, name
        assert {**record.facts, "judge": None} == {**other.facts, "judge": None}, name
    for name in ("corpus", "dialogues", "talk"):
        before, after = (manifest.read(each[name].path).splits["train"] for each in (whole, cut))
        assert len(after.shards) > 2
        assert (len(before.shards), before.sha256) == (1, after.sha256)
    address = cut["talk"].address
    shown = ended(tmp_path / "cut", "data", "show", address)
    assert f"rows in {len(after.shards)} files" in shown.out, shown.err
    linted = ended(tmp_path / "cut", "data", "lint", address, "--tokenizer", cut["tokens"].address)
    assert f"{address}: {after.rows:,} rows" in linted.out, linted.err
