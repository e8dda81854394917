"""A recipe that would promote an auxiliary checkpoint is refused when it is planned."""

from pathlib import Path

import pytest

from posttrain.plan import Plan, resolve
from posttrain.recipe import load
from posttrain.store import Artifact, Store
from tests.core.runs import write

ALONE = """\
recipe: alone
seed: 1
backend: cpu
data:
  corpus: {generate: tiny.corpus, documents: 64, holdout: 8}
  talk: {generate: tiny.dialogues, rows: 32}
services: {rewards: {verifiers: [answer]}}
stages:
  tokenizer: {kind: tokenizer, data: [corpus, talk], vocabulary: 600}
  base:
    kind: pretrain
    model:
      {architecture: apertus, hidden: 32, layers: 2, heads: 2, feed_forward: 64, vocabulary: 600}
    data: corpus
    steps: 4
    optimizer: {adamw: {lr: 1e-3}}
  aux: {kind: sft, from: base, data: talk, steps: 4, optimizer: {adamw: {lr: 1e-3}}}
  after: {kind: sft, from: aux, data: talk, steps: 5, optimizer: {adamw: {lr: 1e-3}}}
promote: {checkpoint: after, to: candidate, gates: [sign_off]}
"""
ABLE = """\
  able:
    {kind: filter, from: aux, data: talk, verifier: answer, attempts: 1, temperature: 0,
     max_new_tokens: 8, keep: {least: 0%, most: 100%}}
  main: {kind: sft, from: base, data: able, steps: 4, optimizer: {adamw: {lr: 1e-3}}}
"""
FILTERED = ALONE.replace("promote:", ABLE + "promote:")


def planned(folder: Path, recipe: str) -> Plan:
    return resolve(load(write(folder, recipe)), Store(folder / "store"))


def committed(store: Store, stage: str, kind: str, key: str, chosen_by: str = "") -> Artifact:
    """An artifact without files; of a filter, what `chosen_by` chose."""
    draft = store.draft("elsewhere", stage, key)
    facts = {"auxiliary": chosen_by} if chosen_by else {}
    return store.commit(draft, kind=kind, identity={}, inputs={}, metrics={}, facts=facts)


def test_what_was_trained_on_the_chosen_data_may_be_promoted(tmp_path: Path) -> None:
    plan = planned(tmp_path, FILTERED.replace("checkpoint: after", "checkpoint: main"))
    assert plan.nodes["able"].inputs["from"] == "aux"


@pytest.mark.parametrize(
    ("checkpoint", "told"), [("aux", "aux is an"), ("after", "after was trained from an")]
)
def test_the_checkpoint_that_chose_and_its_offspring_may_not(
    tmp_path: Path, checkpoint: str, told: str
) -> None:
    recipe = FILTERED.replace("checkpoint: after", f"checkpoint: {checkpoint}")
    with pytest.raises(ValueError, match=rf"r.yaml:\d+: {told} auxiliary checkpoint \(aux chose"):
        planned(tmp_path, recipe)


def test_nor_may_one_that_chose_data_for_another_recipe(tmp_path: Path) -> None:
    """The store knows of it, and still does when the data were removed."""
    store = Store(tmp_path / "store")
    aux = committed(store, "aux", "sft", planned(tmp_path, ALONE).nodes["aux"].key)
    assert planned(tmp_path, ALONE).nodes["aux"].cached
    able = committed(store, "able", "filter", "k", aux.address)
    for _ in range(2):
        with pytest.raises(ValueError, match=r"aux@1 is an auxiliary .* of elsewhere/able@1"):
            planned(tmp_path, ALONE)
        store.remove(able)
