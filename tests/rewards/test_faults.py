"""Faults are injected into real workers: a fault of ours is never a score, and none lasts."""

import os
import re
import signal
import threading
from pathlib import Path
from typing import Any

import pytest

from tests.rewards.service import Service, faulty_item
from tests.waiting import eventually

DEEDS = ["spin", "backtrack", "exit", "crash", "hoard", "nonsense", "no-such-deed"]


def lost_workers(frail: Service) -> float:
    _, text = frail.ask("GET", "/metrics")
    found = re.findall(r"^rewards_workers_lost_total\{.*\} (.*)$", text, re.MULTILINE)
    return sum(map(float, found))


@pytest.mark.parametrize("deed", DEEDS)
def test_who_loses_two_workers_is_unverifiable(frail: Service, deed: str) -> None:
    before = lost_workers(frail)
    (verdict,) = frail.faulty(deed)
    assert (verdict["status"], verdict["score"]) == ("scored", 0.0)
    assert (verdict["reason"], verdict["attempt"]) == ("unverifiable", 2)
    assert lost_workers(frail) == before + 2
    assert frail.faulty("pass")[0]["score"] == 1.0


@pytest.mark.parametrize("deed", DEEDS[1:])
def test_who_loses_one_worker_is_tried_again(frail: Service, tmp_path: Path, deed: str) -> None:
    (verdict,) = frail.faulty(f"{deed} {tmp_path / 'seen'}")
    assert (verdict["status"], verdict["score"], verdict["attempt"]) == ("scored", 1.0, 2)


@pytest.mark.parametrize("deed", ["spin", "exit", "no-such-deed"])
def test_a_failing_canary_clears_the_candidate(
    frail: Service, canary_flag: Path, deed: str
) -> None:
    canary_flag.touch()
    try:
        (verdict,) = frail.faulty(deed)
    finally:
        canary_flag.unlink()
    assert (verdict["status"], verdict["score"]) == ("failed", None)
    assert verdict["reason"] in {"deadline", "crash", "error"}
    assert "canary" in verdict["detail"]
    assert frail.faulty("pass")[0]["score"] == 1.0


def test_a_worker_killed_during_a_check_costs_the_candidate_nothing(
    frail: Service, tmp_path: Path
) -> None:
    seen, verdicts = tmp_path / "pid", []
    asking = threading.Thread(target=lambda: verdicts.extend(frail.faulty(f"spin {seen}")))
    asking.start()
    assert eventually(lambda: seen.exists() and seen.read_text() != "")
    os.kill(int(seen.read_text()), signal.SIGKILL)
    asking.join(30)
    assert [(v["status"], v["score"], v["attempt"]) for v in verdicts] == [("scored", 1.0, 2)]


def test_time_in_the_queue_does_not_count(frail: Service) -> None:
    """Ten naps of 0.3 s by two workers: the last wait longer than the deadline of 1 s."""
    verdicts = frail.faulty(*["nap"] * 10)
    assert [(v["status"], v["score"]) for v in verdicts] == [("scored", 1.0)] * 10


def test_a_fault_does_not_touch_its_neighbours(frail: Service) -> None:
    verdicts = frail.faulty("pass", "spin", "pass", "crash", "abstain", "pass")
    found = [(v["status"], v["score"]) for v in verdicts]
    one, zero = ("scored", 1.0), ("scored", 0.0)
    assert found == [one, zero, one, zero, ("abstained", None), one]


def test_a_verdict_is_that_of_its_item(frail: Service) -> None:
    (verdict,) = frail.faulty("impersonate")
    assert (verdict["id"], verdict["verifier"]) == ("impersonate", "faulty")
    assert verdict["score"] == 0.5


def test_faults_of_one_verifier_leave_the_others_right(frail: Service) -> None:
    answer: dict[str, Any] = {"verifier": "answer", "answers": ["4"], "gold": ["4"]}
    items = [{"id": str(n), **answer} for n in range(20)]
    verdicts = frail.score(faulty_item("crash"), *items, faulty_item("exit"))
    assert [v["score"] for v in verdicts] == [0.0, *[1.0] * 20, 0.0]
