"""Whose move it is within an RL stage."""

from pathlib import Path

import pytest

from posttrain.flow import components
from posttrain.rl.ledger import Ledger

PLAN = {"prompts_per_step": 2, "group": 1, "seed": 1}


@pytest.fixture
def ledger(tmp_path: Path) -> Ledger:
    """Two prompts, a response to each being generated."""
    found = Ledger(tmp_path / "ledger.jsonl", 0, PLAN)
    for prompt in range(2):
        found.note("issued", prompt=prompt, row=0, source="sums", version=0)
        found.note("generating", prompt=prompt)
    return found


def waits(work: Path) -> dict[str, str]:
    return {each.name: each.waits_for for each in components(work)}


def generated(ledger: Ledger, prompt: int) -> None:
    ledger.note("generated", prompt=prompt, response=0, tokens=3, versions=[0, 0])


def scored(ledger: Ledger, prompt: int) -> None:
    ledger.note(
        "scored", prompt=prompt, response=0, status="scored", reason="", score=1.0, seconds=0.1
    )


def test_each_waits_for_the_one_before_it(ledger: Ledger, tmp_path: Path) -> None:
    assert waits(tmp_path) == {"trainer": "rollouts", "rollouts": "", "verdicts": "rollouts"}
    generated(ledger, 0)
    generated(ledger, 1)
    assert waits(tmp_path) == {"trainer": "rollouts", "rollouts": "verdicts", "verdicts": "rewards"}


def test_rollouts_with_nothing_to_do_are_not_to_blame_for_a_long_step(
    ledger: Ledger, tmp_path: Path
) -> None:
    """All that may be under way is ready, and the trainer is in a step: the next move is its."""
    for prompt in range(2):
        generated(ledger, prompt)
        scored(ledger, prompt)
    assert waits(tmp_path) == {"trainer": ""}
    ledger.note("trained", step=1, prompts=[0, 1])
    assert waits(tmp_path) == {"trainer": ""}
