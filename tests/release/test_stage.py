"""The release stage keeps the suite's report, and gates decide on its figures."""

import json
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from posttrain.gates import Evidence, Promotion, findings
from posttrain.plan import resolve
from posttrain.recipe import load
from posttrain.release import examining
from posttrain.serving.server import ServerDied
from posttrain.stages import ProcessLost, Progress, StageContext
from posttrain.stages import release as stage
from posttrain.store import Artifact, Store
from tests.core.runs import SMALL, write
from tests.equivalence.conftest import save
from tests.release.conftest import Served

WITH_RELEASE = (
    SMALL
    + """\
  base:
    kind: pretrain
    model: {architecture: apertus, hidden: 64, layers: 1, heads: 2, feed_forward: 64,
            vocabulary: 600, context: 1024}
    data: corpus
    tokenizer: tokens
    steps: 1
    optimizer: {adamw: {lr: 1e-3}}
  checked: {kind: release, from: base, model_checks: warn}
promote:
  checkpoint: base
  to: candidate
  gates:
    - {suite: release, at_least: 100%}
    - {suite: release, metric: parity, at_least: 100%}
"""
)


@pytest.fixture
def checkpoint(store: Store, tmp_path: Path) -> Artifact:
    draft = store.draft("r", "sft", "key")
    shutil.copytree(save(tmp_path / "model", tied=True), draft.output / "model")
    return store.commit(draft, kind="sft", identity={}, inputs={}, metrics={}, facts={})


def context(store: Store, checkpoint: Artifact, seen: list[Progress]) -> StageContext[stage.Config]:
    draft = store.draft("r", "checked", "release")
    return StageContext(
        name="checked", config=stage.Config.model_validate({"from": "sft"}),
        inputs={"from": checkpoint}, output=draft.output, work=draft.work, seed=1, backend="cpu",
        services={}, suites={}, report=seen.append,
    )  # fmt: skip


def in_place_of_vllm(monkeypatch: pytest.MonkeyPatch, url: str) -> None:
    @contextmanager
    def serving(checkpoints: Any, *, told: Any, **how: Any) -> Iterator[list[Any]]:
        told("starting")
        yield [SimpleNamespace(url=url)]

    monkeypatch.setattr(examining, "serving", serving)


@pytest.mark.parametrize(
    ("fault", "accuracy", "parity"),
    [("", True, True), ("stream breaks off", False, True), ("begin twice", False, False)],
)
def test_gates_decide_on_its_figures(
    fault: str, accuracy: bool, parity: bool, store: Store, checkpoint: Artifact, served: Served,
    monkeypatch: pytest.MonkeyPatch,
) -> None:  # fmt: skip
    served.fake.fault, served.fake.model = fault, checkpoint.address
    in_place_of_vllm(monkeypatch, served.url)
    seen: list[Progress] = []
    outcome = stage.run(of := context(store, checkpoint, seen))
    report = json.loads((of.output / "report.json").read_text())
    assert report["counts"]["fail"] == outcome.metrics["release.fail_count"]
    assert [each.phase for each in seen[:2]] == ["serve", "checks"]
    assert seen[-1].step == seen[-1].steps
    figures = {name.partition(".")[2]: value for name, value in outcome.metrics.items()}
    gates = [
        {"suite": "release", "at_least": "100%"},
        {"suite": "release", "metric": "parity", "at_least": "100%"},
    ]
    promotion = Promotion.model_validate({"checkpoint": "sft", "to": "candidate", "gates": gates})
    found = findings(promotion, Evidence(figures={("sft", "release"): figures}))
    assert [each.passed for each in found] == [accuracy, parity]


def test_a_server_that_dies_leaves_no_report(
    store: Store, checkpoint: Artifact, monkeypatch: pytest.MonkeyPatch
) -> None:
    @contextmanager
    def serving(*_: Any, **how: Any) -> Iterator[list[Any]]:
        raise ServerDied("the server of r/sft@1 ended by signal 9")
        yield []

    monkeypatch.setattr(examining, "serving", serving)
    of = context(store, checkpoint, [])
    with pytest.raises(ProcessLost, match="ended by signal 9"):
        stage.run(of)
    assert not (of.output / "report.json").exists()


def test_a_recipe_may_gate_on_it(store: Store, tmp_path: Path) -> None:
    plan = resolve(load(write(tmp_path, WITH_RELEASE), []), store)
    plan.check()
    assert plan.nodes["checked"].inputs["from"] == "base"
    other = WITH_RELEASE.replace("suite: release, at", "suite: released, at")
    with pytest.raises(ValueError, match="a gate needs suite 'released' of 'base'"):
        resolve(load(write(tmp_path, other), []), store)
