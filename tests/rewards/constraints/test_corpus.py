"""What holds for any text under any instruction."""

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rewards.verifiers.constraints.check import INSTRUCTIONS
from tests.rewards.constraints import test_ifeval, test_rlvr
from tests.rewards.constraints.asked import verdict

CORPUS = Path(__file__).parent.parent / "cases" / "if.jsonl"
CASES: list[dict[str, Any]] = [
    case
    for case in map(json.loads, CORPUS.read_text(encoding="utf-8").splitlines())
    if case["family"] in ("ifeval", "ifrlvr")
]
KWARGS = {id: kwargs for id, kwargs, *_ in [*test_ifeval.CASES, *test_rlvr.CASES]}
PIECES = ["a", "B ", ".", "! ", "?", "*", "***", "-", "#", "[", "]", "<", ">", '"', "'", "“", "”"]
PIECES += [",", "\n", "\n\n", "12", "é", "一", "P.S. ", "```", "Dr. ", "moss ", "{", "}", "******"]
TEXTS = st.text(max_size=60) | st.lists(st.sampled_from(PIECES), max_size=30).map("".join)


def test_both_families_are_whole() -> None:
    ids = {id for id in INSTRUCTIONS if "ifbench" not in INSTRUCTIONS[id].repaired.__module__}
    assert len(ids) == 54
    assert {case["instruction_id"] for case in CASES} <= ids
    assert len(INSTRUCTIONS) == 112


@pytest.mark.parametrize("mode", ["repaired", "upstream"])
@settings(max_examples=25, deadline=None)
@given(text=TEXTS)
def test_any_text_gets_a_verdict_and_loose_forgives(mode: str, text: str) -> None:
    for case in {case["instruction_id"]: case for case in CASES}.values():
        strict = verdict(case["instruction_id"], case["params"], text, mode=mode)
        loose = verdict(case["instruction_id"], case["params"], text, mode=mode, evaluation="loose")
        assert strict.score is not None
        assert loose.score is not None
        assert strict.score <= loose.score
        assert (strict.score == 0.0) == (strict.feedback is not None)


@settings(max_examples=25, deadline=None)
@given(text=TEXTS, params=st.dictionaries(st.sampled_from(["keyword", "N", "n", "m"]), st.text()))
def test_parameters_at_random_are_scored_or_refused(text: str, params: dict[str, Any]) -> None:
    for id in INSTRUCTIONS:
        found = verdict(id, params, text)
        assert found.status == "scored" or found.reason == "bad_gold"


@pytest.mark.timeout(60)
@pytest.mark.parametrize("piece", ["a ", "[", "<<a", "*a ", "P.S. ", "Section ", "{", "A.-", "\n-"])
def test_time_is_not_quadratic_in_the_response(piece: str) -> None:
    long = piece * (30_000 // len(piece))
    assert all(verdict(id, kwargs, long).score is not None for id, kwargs in KWARGS.items())
