"""What the sandbox's benchmark measures with: programs of known verdict, and fresh processes."""

import json
from collections import Counter
from itertools import islice
from pathlib import Path

import pytest

from sandbox.schema import parse_submission
from tests.bench import sandbox_kills, sandbox_programs
from tests.bench.sandbox_baselines import cost
from tests.bench.sandbox_programs import Known
from tests.bench.sandbox_strain import Tally
from tests.sandbox.service import serving


@pytest.mark.parametrize("way", ["process", "bubblewrap"])
def test_a_fresh_process_is_measured_with_all_below_it(way: str, tmp_path: Path) -> None:
    hello, numpy = (cost(way, name, 2, tmp_path) for name in ("hello", "numpy"))
    assert 2 < hello < numpy  # To import numpy is ten times a start; an unseen child costs nothing.


def test_no_body_comes_twice_and_each_is_a_submission() -> None:
    untidy = [known.body for known in islice(sandbox_programs.untidy(), 30)]
    near = [known.body for known in sandbox_programs.near_their_limits(30)]
    bodies = [*sandbox_programs.sums(30, 5), *near, *untidy]
    assert len({parse_submission(body).id for body in bodies}) == len(bodies)


def test_half_of_the_programs_near_their_limits_are_plain() -> None:
    counts = Counter(known.verdict for known in sandbox_programs.near_their_limits(100))
    assert counts == {"OK": 70, "TLE": 10, "WA": 10, "RE": 10}


def test_verdicts_are_as_known(tmp_path: Path) -> None:
    programs = [*sandbox_programs.near_their_limits(10), *islice(sandbox_programs.untidy(), 12)]
    tally = Tally()
    with serving(tmp_path, "--slots", "2") as service:
        for known in programs:
            tally.count(known, service.execute(**json.loads(known.body)))
    assert (tally.judged, tally.slow, tally.wrong) == (22, [], [])


def test_kills_at_random_change_no_verdict_and_a_killed_service_leaves_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sandbox_kills, "KILLS", 6)
    wrong, faults, delays, left = sandbox_kills.kills(tmp_path)
    assert [row.figure for row in (wrong, left)] == ["0", "0"]
    assert faults.reached
    assert delays.figure


def test_a_false_verdict_is_told_from_a_false_time_limit() -> None:
    tally = Tally()
    for verdict in ("OK", "TLE", "RE"):
        tally.count(Known(b"", "OK"), {"id": "x", "verdict": verdict})
    assert tally.slow == ["OK was judged TLE (x)"]
    assert tally.wrong == ["OK was judged RE (x)"]
