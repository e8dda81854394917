"""Variants of a stage: what they become in a plan, what is keyed anew, and what is refused."""

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from ruamel.yaml import YAML

from posttrain.plan import Plan, resolve
from posttrain.recipe import load
from posttrain.store import Store
from tests.core.runs import write

SFT: dict[str, Any] = {
    "kind": "sft", "from": "base", "data": "talk", "steps": 4, "batch": 8,
    "optimizer": {"adamw": {"lr": 0.01, "decay": 0.1}},
}  # fmt: skip
RECIPE: dict[str, Any] = {
    "recipe": "r", "seed": 1, "backend": "cpu",
    "data": {
        "talk": {"generate": "tiny.dialogues", "rows": 8},
        "sums": {"generate": "tiny.prompts", "rows": 8, "holdout": 8, "thinking": "0%"},
    },
    "services": {"rewards": {"verifiers": ["answer"]}},
    "suites": {"answers": {"kind": "answers", "data": "sums.holdout", "verifier": "answer"}},
}  # fmt: skip
BASE = {"kind": "adopt", "path": "b", "digest": "0" * 64}
AFTER: dict[str, Any] = {
    "scores": {"kind": "evaluate", "of": ["sft", "best"], "measure": ["answers"]},
    "best": {"kind": "select", "of": ["sft"], "suite": "answers", "by": "mean"},
    "after": {**SFT, "from": "best"},
}
CHANGES = {
    "steps": st.integers(1, 9),
    "batch": st.sampled_from([2, 4]),
    "optimizer": st.fixed_dictionaries(
        {"adamw": st.fixed_dictionaries({"lr": st.sampled_from([0.1, 0.2])})}
    ),
}


def planned(folder: Path, stages: dict[str, Any], *changes: str) -> Plan:
    """The plan of the recipe with `stages`; nothing is adopted in earnest."""
    path = folder / "r.yaml"
    with path.open("w") as stream:
        YAML().dump({**RECIPE, "stages": {"base": BASE, **stages}}, stream)
    return resolve(load(path, changes), Store(folder / "store"))


def merged(stage: dict[str, Any], changes: dict[str, Any]) -> dict[str, Any]:
    """`changes` written into `stage`, maps key by key."""
    found = dict(stage)
    for key, value in changes.items():
        both = isinstance(value, dict) and isinstance(found.get(key), dict)
        found[key] = merged(found[key], value) if both else value
    return found


@settings(max_examples=40, deadline=None)
@given(
    variants=st.dictionaries(
        st.from_regex("[a-z][a-z0-9_-]{0,3}", fullmatch=True),
        st.fixed_dictionaries({}, optional=CHANGES), min_size=2, max_size=4,
    )
)  # fmt: skip
def test_a_variant_has_the_key_of_a_stage_written_in_full(
    tmp_path_factory: pytest.TempPathFactory, variants: dict[str, dict[str, Any]]
) -> None:
    folder = tmp_path_factory.mktemp("variants")
    whole = {name: merged(SFT, changes) for name, changes in variants.items()}
    stages = {"sft": {**SFT, "variants": variants}, **AFTER}
    if len({json.dumps(each, sort_keys=True) for each in whole.values()}) < len(whole):
        with pytest.raises(ValueError, match=r"r.yaml:\d+: sft.* are the same; change or remove"):
            planned(folder, stages)
        return
    nodes = planned(folder, stages).nodes
    plain = planned(folder, {f"s-{name}": stage for name, stage in whole.items()}).nodes
    for name in variants:
        assert nodes[f"sft.{name}"].key == plain[f"s-{name}"].key
        assert nodes[f"scores.sft.{name}"].inputs["from"] == f"sft.{name}"
    candidates = {role for role in nodes["best"].inputs if role.startswith("from.")}
    assert candidates == {f"from.sft.{name}" for name in variants}
    assert "sft" not in nodes
    assert nodes["after"].inputs["from"] == "best"


def test_only_what_changes_is_keyed_anew(tmp_path: Path) -> None:
    stages = {"sft": {**SFT, "variants": {"a": {}, "b": {"steps": 5}}}, **AFTER}
    before = planned(tmp_path, stages).nodes
    after = planned(tmp_path, stages, "stages.sft.variants.b.steps=6").nodes
    again = {name for name, node in after.items() if node.key != before[name].key}
    assert again == {"sft.b", "scores.sft.b", "best", "scores.best", "after"}


def test_until_a_stage_with_variants_means_all_of_them(tmp_path: Path) -> None:
    stages = {"sft": {**SFT, "variants": {"a": {}, "b": {"steps": 5}}}, **AFTER}
    found = planned(tmp_path, stages).until("sft").nodes
    assert {"sft.a", "sft.b", "base"} <= found.keys()
    assert not {"best", "scores.sft.a"} & found.keys()


TEXT = """\
recipe: r
seed: 1
backend: cpu
data: {talk: {generate: tiny.dialogues, rows: 8}}
stages:
  base: {kind: adopt, path: b, digest: DIGEST}
  sft:
    kind: sft
    from: base
    data: talk
    steps: 4
    optimizer: {adamw: {lr: 1e-3}}
    variants:
      low: {}
      high: {batch: 2}
""".replace("DIGEST", "f" * 64)

WRONG = {
    "a variant without a map": ("low: {}", "low: 3", "14: stages.sft.variants.low: a map"),
    "no name": ("low: {}", "Low: {}", "14: stages.sft.variants: 'Low' is no name"),
    "a kind of its own": ("low: {}", "low: {kind: rl}", "14: stages.sft.variants.low.kind: a "),
    "one alone": ("      low: {}\n", "", "13: stages.sft.variants: two or more are wanted"),
    "none": ("      low: {}\n      high: {batch: 2}\n", "", "13: stages.sft.variants: two or more"),
    "twins": ("{batch: 2}", "{steps: 4}", "13: sft.low and sft.high are the same"),
    "a key unknown in one": (
        "low: {}", "low: {stepz: 1}",
        "14: unknown key in stages.sft.low: 'stepz'; did you mean 'steps'?",
    ),
    "a key unknown in all": (
        "steps: 4", "steps: 4\n    rank: 1",
        "12: unknown key in stages.sft: 'rank'; did you mean 'ranks'?",
    ),
    "a key that all lack": ("    steps: 4\n", "", "7: stages.sft.steps is missing"),
    "variants of a variant": (
        "low: {}", "low: {variants: {a: {}, b: {}}}",
        "14: unknown key in stages.sft.low: 'variants'",
    ),
    "read without a choice": (
        "      high: {batch: 2}\n",
        "      high: {batch: 2}\n  more:\n    {kind: sft, from: sft, data: talk, steps: 1,"
        " optimizer: {adamw: {lr: 1e-3}}}\n",
        "17: more takes its input 'from' from 'sft', which is sft.low and sft.high; let a stage",
    ),
}  # fmt: skip


@pytest.mark.parametrize("case", WRONG)
def test_what_is_wrong_with_variants_is_one_line(tmp_path: Path, case: str) -> None:
    old, new, told = WRONG[case]
    assert old in TEXT
    path = write(tmp_path, TEXT.replace(old, new))
    with pytest.raises(ValueError, match=r"r.yaml") as refused:
        resolve(load(path), Store(tmp_path / "store"))
    assert f"r.yaml:{told}" in str(refused.value)
    assert "\n" not in str(refused.value)


def test_a_key_may_stand_in_each_variant_alone(tmp_path: Path) -> None:
    moved = TEXT.replace("    optimizer: {adamw: {lr: 1e-3}}\n", "")
    moved = moved.replace("low: {}", "low: {optimizer: {adamw: {lr: 1e-3}}}")
    moved = moved.replace("{batch: 2}", "{optimizer: {ademamix: {lr: 1e-2}}}")
    nodes = resolve(load(write(tmp_path, moved)), Store(tmp_path / "store")).nodes
    optimizers = [nodes[f"sft.{name}"].identity["config"]["optimizer"] for name in ("low", "high")]
    assert "adamw" in optimizers[0]
    assert "ademamix" in optimizers[1]
