"""From a recipe's gates to a moved alias: what is planned, examined, waived, signed and kept."""

import json
from pathlib import Path
from typing import Any

import pytest

from posttrain.journal import Journal
from posttrain.plan import Plan, resolve
from posttrain.recipe import load
from posttrain.registry import Registry
from posttrain.reports import describe, scores
from posttrain.store import Store
from tests.core.runs import ended, write

RECIPE = """\
recipe: mine
seed: 1
backend: cpu
data:
  corpus: {generate: tiny.corpus, documents: 64, holdout: 400}
stages:
  tokens: {kind: tokenizer, data: [corpus], vocabulary: 600}
  base:
    kind: pretrain
    model: {architecture: apertus, hidden: 8, layers: 1, heads: 1, feed_forward: 8, vocabulary: 600}
    data: corpus
    tokenizer: tokens
    steps: 1
    optimizer: {adamw: {lr: 1e-3}}
  sft: {kind: sft, from: base, data: corpus, steps: 1, optimizer: {adamw: {lr: 1e-3}}}
  scores: {kind: evaluate, of: [base, sft], measure: [chains, safety]}
services: {rewards: {verifiers: [answer]}}
suites:
  chains: {kind: continuation, data: corpus.holdout}
  safety: {kind: continuation, data: corpus.holdout, may_steer: false}
promote:
  checkpoint: sft
  to: candidate
  gates:
    - {suite: chains, against: base, superior_by: 10 points}
    - {suite: safety, against: base, not_worse_than: 10 points}
"""
GATE = "safety.accuracy not worse than base by 10 points"
WHY = ["--reason", "a known flaw of the suite", "--by", "ada"]


def planned(folder: Path, text: str = RECIPE) -> Plan:
    return resolve(load(write(folder, text)), Store(folder / "store"))


def carried_out(folder: Path, text: str = RECIPE, **right: int) -> str:
    """Every artifact of the recipe, `right` prompts of safety for each; the address of sft."""
    store, plan = Store(folder / "store"), planned(folder, text)
    Journal(store, "mine").begin(describe(plan))
    addresses: dict[str, str] = {}
    for node in plan.nodes.values():
        draft = store.draft("mine", node.name, node.key)
        metrics: dict[str, float] = {}
        if node.kind == "evaluate":
            stage = node.inputs["from"]
            numbers = {"chains": 100 if stage == "base" else 200, "safety": right[stage]}
            kept: dict[str, Any] = {}
            for suite, number in numbers.items():
                metrics[f"{suite}.accuracy"] = number / 400
                kept[suite] = {"attempts": [[float(n < number)] for n in range(400)]}
                kept[suite]["groups"] = [[]] * 400
            (draft.output / "scores.json").write_text(json.dumps(kept))
        made = store.commit(
            draft, kind=node.kind, identity=node.identity, metrics=metrics, facts={},
            inputs={role: addresses[source] for role, source in node.inputs.items()},
        )  # fmt: skip
        addresses[node.name] = made.address
    return addresses["sft"]


def aliases(folder: Path) -> dict[str, str]:
    return Registry(Store(folder / "store")).aliases()


def test_gates_that_hold_move_the_alias_and_are_kept_with_their_figures(tmp_path: Path) -> None:
    address = carried_out(tmp_path, base=300, sft=298)
    done = ended(tmp_path, "promote", address, "--to", "candidate", "--json")
    assert done.code == 0, done.err
    assert json.loads(done.out)["moved"]
    (move,) = Registry(Store(tmp_path / "store")).history("candidate")
    gain, safety = move.gates  # type: ignore[union-attr]
    assert gain["measured"]["before"] == 0.25
    assert gain["measured"]["p"] < 0.001
    assert safety["gate"] == GATE
    assert safety["measured"]["test"] == "mcnemar"
    assert len(safety["measured"]["digest"]) == 64


def test_a_gate_that_fails_can_be_waived_by_name_for_a_time(tmp_path: Path) -> None:
    address = carried_out(tmp_path, base=300, sft=250)
    refused = ended(tmp_path, "promote", address, "--to", "candidate")
    assert refused.code == 3
    assert f"gate {GATE}: fails  0.750 -> 0.625" in refused.out
    waive = ["waive", address, *WHY, "--gate"]
    for other, told in ((GATE.replace("10", "9"), f"did you mean {GATE!r}"), ("equivalence", "")):
        wrong = ended(tmp_path, *waive, other)
        assert wrong.code == 2
        assert f"has no gate {other!r}; {told}" in wrong.err
    assert aliases(tmp_path) == {}
    assert ended(tmp_path, *waive, GATE).code == 0
    passed = ended(tmp_path, "promote", address, "--to", "candidate")
    assert passed.code == 0, passed.err
    assert "waived by ada until" in passed.out
    move = Registry(Store(tmp_path / "store")).history("candidate")[-1]
    assert "a known flaw" in move.gates[1]["measured"]["waived"]  # type: ignore[union-attr]


def test_a_person_must_sign_and_may_take_it_back(tmp_path: Path) -> None:
    address = carried_out(tmp_path, RECIPE + "    - sign_off\n", base=300, sft=300)
    promote = ["promote", address, "--to"]
    unsigned = ended(tmp_path, *promote, "release")
    assert unsigned.code == 3
    assert "gate sign_off: fails  nobody has signed" in unsigned.out
    sign = ["sign", address, "--to", "release", *WHY]
    assert ended(tmp_path, *sign).code == 0
    assert ended(tmp_path, *promote, "candidate").code == 3  # It was signed for another alias.
    assert ended(tmp_path, *sign, "--refuse").code == 0
    assert "refused by ada" in ended(tmp_path, *promote, "release").out
    assert ended(tmp_path, *sign).code == 0
    assert ended(tmp_path, *promote, "release").code == 0


def test_scores_of_another_evaluation_of_a_stage_are_not_taken(tmp_path: Path) -> None:
    old = carried_out(tmp_path, base=300, sft=300)
    text = RECIPE.replace("data: corpus, steps: 1", "data: corpus, steps: 2")
    carried_out(tmp_path, text, base=300, sft=300)
    refused = ended(tmp_path, "promote", old, "--to", "candidate")
    assert refused.code == 3
    assert "chains.accuracy of sft was not measured" in refused.out


def test_a_gate_that_cannot_see_its_margin_is_refused_when_planned(tmp_path: Path) -> None:
    small = RECIPE.replace("holdout: 400", "holdout: 30")
    done = ended(tmp_path, "plan", str(write(tmp_path, small)))
    assert done.code == 2
    assert done.err.count("cannot see its margin") == 2
    assert f"r.yaml:21: gate {GATE} cannot see its margin" in done.err
    assert "the smallest loss that 30 prompts can show" in done.err


def test_what_may_not_steer_is_out_of_sight(tmp_path: Path) -> None:
    carried_out(tmp_path, base=300, sft=300)
    assert scores(planned(tmp_path))["sft"] == {"chains.accuracy": 0.5}
    for flags in ([], ["--json"]):
        shown = ended(tmp_path, "show", "mine/scores.sft@1", *flags).out
        assert "chains.accuracy" in shown
        assert "safety.accuracy" not in shown


def test_what_may_not_steer_ends_no_training(tmp_path: Path) -> None:
    steered = RECIPE.replace(
        "    steps: 1\n    optimizer",
        "    steps: {at_most: 9, until: {suite: safety, at_least: 50%}}\n    optimizer",
    )
    with pytest.raises(ValueError, match="base is steered by suite 'safety'"):
        planned(tmp_path, steered)
