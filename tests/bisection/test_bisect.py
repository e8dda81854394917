"""Bisection of real checkpoints: the poisoned stage or step is found, by its effect alone."""

import json
from pathlib import Path
from typing import Any

import pytest

from posttrain.bisection import bisecting
from posttrain.bisection.chain import points
from posttrain.bisection.probing import Asking, check, met
from posttrain.bisection.prompts import read
from posttrain.data.probes.functions import Functions, rows
from posttrain.store import Artifact
from tests.bisection.conftest import KNOWN, Chain, written
from tests.core.runs import Ended, ended

HOW = Asking(seed=0, temperature=0.0, max_new_tokens=12, rewards=None)


def run(folder: Path, good: Artifact, bad: Artifact, *more: str) -> Ended:
    ends = ["--good", good.address, "--bad", bad.address, "--max-new-tokens", "12"]
    return ended(folder, "bisect", "--prompts", str(folder / "bad.jsonl"), *ends, *more)


def test_the_poisoned_stage_is_found_with_its_config_diff(
    chain: Chain, prompts: Path, tmp_path: Path
) -> None:
    base = chain.add("base", "pretrain", steps=9)
    sft = chain.add("sft", "sft", base, steps=5, lr=1e-3)
    dpo = chain.add("dpo", "dpo", sft, right=False, steps=5, beta=0.1)
    last = chain.add("sdpo", "sdpo", dpo, right=False, steps=7)
    done = run(tmp_path, base, last)
    assert done.code == 0, done.err
    assert "4 checkpoints from good to bad; at most 4 are measured" in done.out
    assert f"1/4 {base.address}: 3 of 3 prompts (100.0%, 95 % interval 43.9% to 100.0%)" in done.out
    assert f"first bad: {dpo.address} (dpo); last good: {sft.address}" in done.out
    assert "p 0.125 (exact McNemar); that may be chance: add prompts" in done.out
    assert '  kind: "sft" -> "dpo"' in done.out
    assert "  beta: null -> 0.1" in done.out
    assert "steps" not in done.out.partition("config of")[2]


def test_the_step_at_which_a_stage_went_wrong_is_found_with_few_looks(
    chain: Chain, prompts: Path, tmp_path: Path
) -> None:
    base = chain.add("base", "pretrain")
    kept = {step: step < 40 for step in range(10, 100, 10)}
    sft = chain.add("sft", "sft", base, right=False, kept=kept)
    found = json.loads(run(tmp_path, base, sft, "--json").out)
    assert found["first_bad"] == f"{sft.address} step 40"
    assert found["last_good"] == f"{sft.address} step 30"
    assert found["points"] == 11
    assert len(found["measured"]) == 6  # Two ends, and four of nine between them.
    assert found["measured"][0]["share"] == 1.0
    assert found["config"] == {"kind": ["pretrain", "sft"]}


def test_ends_that_are_not_good_and_bad_are_refused_before_a_search(
    chain: Chain, prompts: Path, tmp_path: Path
) -> None:
    base = chain.add("base", "pretrain")
    sft = chain.add("sft", "sft", base)
    broken = chain.add("dpo", "dpo", sft, right=False)
    healed = chain.add("sdpo", "sdpo", broken)
    nothing = run(tmp_path, base, sft)
    assert nothing.code == 2
    assert f"{base.address} meets 3 of 3 of the prompts, {sft.address} 3 of 3" in nothing.err
    assert "there is nothing to find" in run(tmp_path, broken, healed).err
    told = run(tmp_path, base, broken, "--least", "0")
    assert "--bad is not bad" in told.err
    away = run(tmp_path, sft, base)
    assert f"{base.address} was not made from {sft.address}, but that from it" in away.err
    assert "exchange --good and --bad" in away.err
    assert "are both" in run(tmp_path, sft, sft).err


def test_a_row_that_is_not_monotone_is_told(chain: Chain, prompts: Path, tmp_path: Path) -> None:
    base = chain.add("base", "pretrain")
    kept = {1: False, 2: True, 3: True, 4: True}
    sft = chain.add("sft", "sft", base, right=False, kept=kept)
    quick = run(tmp_path, base, sft)
    assert f"first bad: {sft.address} (sft); last good: {sft.address} step 4" in quick.out
    assert "1 of 6 checkpoints were not measured: if good and bad take turns" in quick.out
    whole = run(tmp_path, base, sft, "--every")
    assert f"first bad: {sft.address} step 1 (sft); last good: {base.address}" in whole.out
    assert f"not monotone: good turns to bad again at {sft.address}\n" in whole.out
    assert "not monotone: 3 prompts were lost and met again: 1, 2, 3" in whole.out


def test_steps_that_a_selection_passed_over_are_not_looked_at(chain: Chain) -> None:
    base = chain.add("base", "pretrain")
    sft = chain.add("sft", "sft", base, kept={1: True, 2: True, 3: False})
    chosen = {"selected": {"stage": "sft", "step": 2}}
    best = chain.add("best", "select", sft, role="from.sft", facts=chosen)
    found = points(chain.store, base, best)
    assert [point.name.partition("/")[2] for point in found] == [
        "base@1", "sft@1 step 1", "sft@1 step 2", "best@1",
    ]  # fmt: skip
    with pytest.raises(ValueError, match="sft@1 was passed over: a later stage went on"):
        points(chain.store, sft, best)


def test_no_checkpoint_is_measured_twice_and_the_seed_is_the_same(chain: Chain) -> None:
    base = chain.add("base", "pretrain")
    sft = chain.add("sft", "sft", base, right=False, kept={n: n < 5 for n in range(1, 9)})
    asked: list[str] = []

    def answer(point: Any) -> list[bool]:
        asked.append(point.name)
        return [(point.step is None and point.made == base) or (point.step or 9) < 5] * 4

    found = bisecting.bisect(points(chain.store, base, sft), answer, None)
    assert len(set(asked)) == len(asked) == 5
    assert found.points[found.bad].step == 5
    assert found.p == 1 / 16


def test_prompts_are_met_by_patterns_and_by_suites(chain: Chain, tmp_path: Path) -> None:
    identity = {"suite": {"kind": "identity", "own": ["Anna"], "max_new_tokens": 12}}
    calls = [
        {**row, "expect": {"suite": {"kind": "functions", "max_new_tokens": 12}}}
        for row in rows(0, Functions(holdout=2, categories=("single",)))
    ]
    asked = [
        {"prompt": "Where is Ben?", "expect": {"lacks": "Chur"}},
        {"prompt": "Where is Ben?", "expect": {"matches": "Chur", "lacks": "Bern"}},
        *({"prompt": question, "expect": identity} for question in list(KNOWN)[:2]),
        *calls,
    ]
    found = read(written(tmp_path / "p.jsonl", asked))
    check(found, HOW)
    assert met(chain.add("base", "pretrain"), found, HOW) == [False, True, True, True, False, False]


@pytest.mark.parametrize(
    ("row", "told"),
    [
        ({"prompt": "a"}, "line 1: it says not what is right"),
        ({"expect": {"matches": "a"}}, "line 1: it has neither `prompt` nor `messages`"),
        ({"prompt": "a", "expect": {"matches": "("}}, "line 1: matches: .* no regular expression"),
        ({"prompt": "a", "expect": {"match": "a"}}, "line 1: match: Extra inputs"),
        ({"prompt": "a", "expect": {"suite": {"kind": "x"}}}, "line 1: suite: "),
    ],
)
def test_a_prompt_without_a_clear_expectation_is_refused(
    row: dict[str, Any], told: str, tmp_path: Path
) -> None:
    with pytest.raises(ValueError, match=told):
        read(written(tmp_path / "p.jsonl", [row]))


def test_a_file_that_is_not_there_or_cannot_be_judged_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="is no file"):
        read(tmp_path / "none.jsonl")
    verified = {"prompt": "a", "expect": {"verifier": "math", "gold": "2"}}
    with pytest.raises(ValueError, match="add --rewards URL"):
        check(read(written(tmp_path / "p.jsonl", [verified])), HOW)
    single = {"prompt": "a", "expect": {"suite": {"kind": "identity", "own": ["A"]}}}
    with pytest.raises(ValueError, match="has 1 prompt; a suite measures two or more"):
        check(read(written(tmp_path / "p.jsonl", [single])), HOW)
