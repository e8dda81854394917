"""Two variants of SFT side by side, one carried forward by a suite: a whole run on a real Ray."""

import json
import shutil
from pathlib import Path

from posttrain.journal import Journal
from posttrain.stages import adopt
from posttrain.store import Store
from posttrain.training.sft import Start
from tests.core.runs import posttrain, write

RECIPE = """\
recipe: rivals
seed: 1
backend: cpu
services: {rewards: {verifiers: [answer], workers: 1}}
data:
  dialogues: {generate: tiny.dialogues, rows: 24}
  pairs: {generate: tiny.pairs, rows: 4, holdout: 24}
suites:
  taste: {kind: preference, data: pairs.holdout}
stages:
  base: {kind: adopt, path: base, digest: DIGEST}
  sft:
    kind: sft
    from: base
    data: dialogues
    steps: 3
    batch: 4
    optimizer: {adamw: {lr: 1e-3}}
    variants:
      low: {}
      high: {optimizer: {adamw: {lr: 2e-2}}}
  scores: {kind: evaluate, of: [sft], measure: [taste]}
  best: {kind: select, of: [sft], suite: taste, by: mean}
  after: {kind: sft, from: best, data: dialogues, steps: 1, optimizer: {adamw: {lr: 1e-3}}}
"""


def test_the_better_variant_goes_on_and_a_changed_one_alone_runs_again(
    base: Start, tmp_path: Path
) -> None:
    shutil.copytree(base.path / "model", tmp_path / "base")
    recipe = write(tmp_path, RECIPE.replace("DIGEST", adopt.digest_of(tmp_path / "base")))
    ran = posttrain(tmp_path, "run", str(recipe))
    assert ran.returncode == 0, ran.stderr
    store = Store(tmp_path / "store")
    made = {artifact.record.stage: artifact for artifact in store.artifacts()}
    assert {"sft.low", "sft.high", "scores.sft.low", "scores.sft.high"} <= made.keys()
    lows, highs = (made[f"scores.sft.{name}"].record.metrics for name in ("low", "high"))
    selected = made["best"].record.facts["selected"]
    assert selected["values"].keys() == {"sft.low", "sft.high"}
    best = max(selected["values"], key=lambda name: float(selected["values"][name]))
    assert selected["stage"] == best
    measured = {"sft.low": lows, "sft.high": highs}[best]
    assert measured["taste.accuracy"] == made["best"].record.metrics["taste.accuracy"]
    chosen = (made["best"].path / "model/model.safetensors").read_bytes()
    assert chosen == (made[best].path / "model/model.safetensors").read_bytes()
    assert made["after"].record.inputs["from"] == "rivals/best@1"
    assert Journal(store, "rivals").log("sft.high").is_file()

    change = "stages.sft.variants.high.steps=4"
    planned = posttrain(tmp_path, "plan", str(recipe), "--set", change, "--json")
    states = {stage["name"]: stage["state"] for stage in json.loads(planned.stdout)["stages"]}
    again = {name for name, state in states.items() if state == "run"}
    assert again == {"sft.high", "scores.sft.high", "best", "after"}
