"""Faults are injected into real workers: a fault of ours is never a score, and none lasts."""

import json
import os
import signal
import threading
import time
from http.client import HTTPConnection
from pathlib import Path
from typing import Any

import pytest

from tests.rewards.faulty import FLAG
from tests.rewards.service import Service, faulty_item, serving
from tests.waiting import eventually

TRIES = 20
DEEDS = ["spin", "backtrack", "exit", "crash", "hoard", "nonsense", "no-such-deed"]


def lost_workers(frail: Service) -> float:
    return frail.counted("rewards_worker_restarts_total")


def convicted(frail: Service, *deeds: str) -> list[dict[str, Any]]:
    """The verdicts of a time when the machine let the checks compute.

    On a busy one a check that spins may be late by the clock alone, which is not its doing; such a
    verdict is not remembered, so it is asked for again.
    """
    for _ in range(TRIES):
        verdicts = frail.faulty(*deeds)
        if all(verdict["reason"] != "stalled" for verdict in verdicts):
            return verdicts
    raise AssertionError(f"stalled {TRIES} times: {verdicts}")


@pytest.mark.parametrize("deed", DEEDS)
def test_who_loses_two_workers_is_unverifiable(frail: Service, deed: str) -> None:
    (verdict,) = convicted(frail, deed)
    assert (verdict["status"], verdict["score"]) == ("scored", 0.0)
    assert (verdict["reason"], verdict["attempt"]) == ("unverifiable", 2)
    assert frail.faulty("pass")[0]["score"] == 1.0


def test_each_lost_worker_is_counted(frail: Service) -> None:
    before = lost_workers(frail)
    assert frail.faulty("crash")[0]["reason"] == "unverifiable"
    assert lost_workers(frail) == before + 2


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
        (verdict,) = convicted(frail, deed)
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
    verdicts = convicted(frail, "pass", "spin", "pass", "crash", "abstain", "pass")
    found = [(v["status"], v["score"]) for v in verdicts]
    one, zero = ("scored", 1.0), ("scored", 0.0)
    assert found == [one, zero, one, zero, ("abstained", None), one]


def test_a_verifier_under_another_name_has_the_same_rule_of_blame(tmp_path: Path) -> None:
    """Its canaries were asked under the module's own name, so nobody was ever to blame."""
    options = ("--verifiers", "other=tests.rewards.faulty", "--workers", "1", "--deadline", "1")
    with serving(tmp_path, *options, env={FLAG: str(tmp_path / "flag")}) as service:
        (verdict,) = service.score({**faulty_item("crash"), "verifier": "other"})
    assert (verdict["status"], verdict["reason"]) == ("scored", "unverifiable")


def test_a_verdict_is_that_of_its_item(frail: Service) -> None:
    (verdict,) = frail.faulty("impersonate")
    assert (verdict["id"], verdict["verifier"]) == ("impersonate", "faulty")
    assert verdict["score"] == 0.5


def test_only_the_item_under_check_is_blamed(frail: Service, tmp_path: Path) -> None:
    """Items sent ahead to a worker that is lost are checked by another, for the first time."""
    frail.faulty("pass")  # A short check, so that many are sent ahead.
    deeds = [f"pass {tmp_path / str(n)}" for n in range(20)]
    verdicts = frail.faulty(*deeds[:10], "crash", *deeds[10:])
    assert [(v["score"], v["attempt"]) for v in verdicts if v["id"] != "crash"] == [(1.0, 1)] * 20
    assert [v["reason"] for v in verdicts if v["id"] == "crash"] == ["unverifiable"]


def test_items_behind_a_stuck_one_go_to_an_idle_worker(frail: Service) -> None:
    verdicts: list[dict[str, Any]] = []
    asking = threading.Thread(target=lambda: verdicts.extend(frail.faulty("sleep", "nap", "nap")))
    asking.start()
    time.sleep(0.1)
    passed = frail.score(*(dict(faulty_item("pass"), id=str(n), gold=n) for n in range(9)))
    assert [v["score"] for v in passed] == [1.0] * 9
    assert asking.is_alive(), "they have waited for a check that only its deadline ends"
    asking.join(30)
    assert [v["score"] for v in verdicts] == [None, 1.0, 1.0]


def test_who_was_kept_from_computing_is_not_to_blame(frail: Service) -> None:
    """A check that sleeps, as on a busy machine, is late by the clock alone."""
    (verdict,) = frail.faulty("sleep")
    assert (verdict["status"], verdict["reason"]) == ("failed", "stalled")


def test_a_worker_killed_twice_from_outside_costs_the_candidate_nothing(
    frail: Service, tmp_path: Path
) -> None:
    """As by the kernel, when memory is short."""
    seen, verdicts = tmp_path / "pid", list[dict[str, Any]]()
    item = {**faulty_item("tell-and-spin"), "gold": str(seen)}
    asking = threading.Thread(target=lambda: verdicts.extend(frail.score(item)))
    asking.start()
    for _ in range(2):
        assert eventually(seen.exists)
        victim = int(seen.read_text())
        seen.unlink()
        os.kill(victim, signal.SIGKILL)
    asking.join(30)
    assert [(v["status"], v["reason"]) for v in verdicts] == [("failed", "killed")]


def test_a_worker_that_has_grown_is_replaced_in_time(frail: Service) -> None:
    before = frail.counted("rewards_worker_restarts_total", cause="recycled")
    assert frail.faulty("grow")[0]["attempt"] == 1
    assert eventually(
        lambda: frail.counted("rewards_worker_restarts_total", cause="recycled") == before + 1
    )
    assert frail.faulty("pass")[0]["score"] == 1.0


def test_equal_items_under_check_are_checked_once(frail: Service, tmp_path: Path) -> None:
    """Whatever their ids; one is enough for all, and each gets it under its own id."""
    path = tmp_path / "log"
    item = {"verifier": "faulty", "response": "log", "gold": str(path)}
    verdicts = frail.score(*({"id": str(n), **item} for n in range(8)))
    verdicts += frail.score({"id": "later", **item})
    assert [v["id"] for v in verdicts] == [*map(str, range(8)), "later"]
    assert {v["score"] for v in verdicts} == {1.0}
    assert len(path.read_text().splitlines()) == 1
    assert frail.counted("rewards_cache_hits_total", verifier="faulty") >= 1


def test_a_verdict_that_blames_is_not_remembered(frail: Service, tmp_path: Path) -> None:
    path = tmp_path / "log"
    item = {"id": "a", "verifier": "faulty", "response": "log-and-crash", "gold": str(path)}
    for _ in range(2):
        assert frail.score(item)[0]["reason"] == "unverifiable"
    assert len(path.read_text().splitlines()) == 4


def test_who_leaves_takes_back_what_has_not_begun(frail: Service, tmp_path: Path) -> None:
    marks = [tmp_path / str(n) for n in range(20)]
    body = json.dumps({"items": [faulty_item(f"nap {mark}") for mark in marks]}).encode()
    connection = HTTPConnection("127.0.0.1", frail.port, timeout=10)
    connection.request("POST", "/v1/score", body)
    assert eventually(lambda: any(mark.exists() for mark in marks))
    connection.close()
    assert eventually(lambda: frail.counted("rewards_items_in_flight") == 0)
    assert sum(mark.exists() for mark in marks) <= 8


def test_faults_of_one_verifier_leave_the_others_right(frail: Service) -> None:
    answer: dict[str, Any] = {"verifier": "answer", "answers": ["4"], "gold": ["4"]}
    items = [{"id": str(n), **answer} for n in range(20)]
    verdicts = frail.score(faulty_item("crash"), *items, faulty_item("exit"))
    assert [v["score"] for v in verdicts] == [0.0, *[1.0] * 20, 0.0]


def test_workers_that_die_under_shared_checks_cost_nothing(frail: Service) -> None:
    """Many inline checks are shared with workers; whatever happens to these, all are done."""
    answer: dict[str, Any] = {"verifier": "answer", "gold": ["4"]}
    rows = [{"id": str(n), **answer, "answers": ["4" if n % 2 else "5"]} for n in range(1000)]
    found: list[Any] = []

    def ask() -> None:
        for _ in range(10):
            found.append([v["score"] for v in frail.score(*rows)])

    asking = threading.Thread(target=ask)
    asking.start()
    while asking.is_alive():
        frail.faulty("exit")
    assert found == [[float(n % 2) for n in range(1000)]] * 10
