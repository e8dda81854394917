import shutil
from pathlib import Path
from typing import Any

import pytest

from posttrain.plan import Plan, resolve
from posttrain.recipe import load
from posttrain.store import Store

RECIPE = """
recipe: aligned
seed: 1
backend: cpu
data:
  corpus:   {generate: tiny.corpus, documents: 10, holdout: 4}
  manners:  {generate: tiny.manners, rows: 10}
  requests: {generate: tiny.requests, rows: 10, holdout: 4}
  manual:   {charter: tiny.md}
services: {rewards: {verifiers: [rules]}}
suites:
  adherence: {kind: adherence, data: requests.holdout, charter: manual}
stages:
  tokenizer: {kind: tokenizer, data: [corpus, manners], vocabulary: 400}
  base:
    kind: pretrain
    launcher: local
    model: {architecture: apertus, hidden: 32, layers: 1, heads: 2, feed_forward: 32,
            vocabulary: 400, context: 256}
    data: corpus
    steps: 2
    optimizer: {adamw: {lr: 1e-3}}
    schedule: {constant: {}}
  calibration:
    {kind: calibrate, data: manners, judge: {verifier: rules, charter: manual}, rungs: 3,
     require: {spearman: 80%}}
  sdpo:
    kind: sdpo
    from: base
    data: requests
    judge: {verifier: rules, charter: manual, calibrated: calibration}
    reprompt: {length: 96}
    anchor: {data: manners, prompts_per_step: 2}
    teacher: {regularization: frozen}
    objective: {top_k: 8}
    steps: 2
    prompts_per_step: 2
    lengths: {prompt: 64, response: 8}
    optimizer: {adamw: {lr: 1e-3}}
  drafts: {kind: generate, from: sdpo, data: requests, max_new_tokens: 8}
  grades: {kind: score, completions: drafts, judge: {verifier: rules, charter: manual}}
  scores: {kind: evaluate, of: [base, sdpo], measure: [adherence]}
"""


def planned(folder: Path, *changes: str) -> Plan:
    (folder / "aligned.yaml").write_text(RECIPE)
    return resolve(load(folder / "aligned.yaml", list(changes)), Store(folder / "store"))


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    shutil.copy("recipes/charters/tiny.md", tmp_path)
    return tmp_path


def test_who_judges_by_a_charter_depends_on_it(folder: Path) -> None:
    nodes = planned(folder).nodes
    assert nodes["sdpo"].inputs == {
        "from": "base", "data.requests": "requests", "data.manners": "manners",
        "charter": "manual", "calibration": "calibration",
    }  # fmt: skip
    assert nodes["scores.sdpo"].inputs["charter.adherence"] == "manual"
    assert nodes["grades"].inputs == {"completions": "drafts", "charter": "manual"}


def test_another_word_in_the_charter_is_another_key_for_all_who_use_it(folder: Path) -> None:
    before = {name: node.key for name, node in planned(folder).nodes.items()}
    path = folder / "tiny.md"
    path.write_text(path.read_text().replace("with a kind word.", "with kind words."))
    after = {name: node.key for name, node in planned(folder).nodes.items()}
    changed = {name for name in before if before[name] != after[name]}
    assert changed == {
        "manual", "calibration", "sdpo", "drafts", "grades", "scores.base", "scores.sdpo",
    }  # fmt: skip


@pytest.mark.parametrize(
    ("change", "told"),
    [
        ("data.manual.charter=none.md", "charter none.md: there is no such file"),
        ("stages.sdpo.judge.charter=requests", "whose kind is data; that role is for charter"),
        ("stages.sdpo.judge.charter=house", "'house', which is not declared"),
        ("stages.sdpo.anchor.prompts_per_step=0", "stages.sdpo.anchor.prompts_per_step"),
        ("stages.sdpo.updates=3", "2 prompts do not make 3 equal updates"),
        ("stages.sdpo.objective={mode: sampled}", "mode sampled is reverse KL"),
        ("stages.sdpo.reprompt.feedback=never", "has nothing to teach"),
    ],
)
def test_what_does_not_fit_is_told_when_planning(folder: Path, change: str, told: str) -> None:
    with pytest.raises(ValueError, match=r"sdpo|charter") as fault:
        planned(folder, change)
    assert told in str(fault.value)


def test_a_stage_is_planned_without_its_engine(folder: Path) -> None:
    config: Any = planned(folder).nodes["sdpo"].config
    assert config.objective.branch == "jsd"
    assert config.services() == ("rewards",)
