"""Verdicts are counted by source, and a source that breaks its verifier too often ends the run."""

from concurrent.futures import ThreadPoolExecutor

import pytest
from hypothesis import given
from hypothesis import strategies as st

from posttrain.rl.tally import UNVERIFIABLE, WINDOW, Tally


def test_verdicts_are_counted_by_source_status_and_reason() -> None:
    tally = Tally(0.01)
    for _ in range(3):
        tally.add("sums", "scored", "", 0.5)
    tally.add("sums", "scored", "mismatch", 0.5)
    tally.add("code", "failed", "overload", 0.5)
    assert tally.metrics() == {
        "verdicts.sums.scored": 3.0, "verdicts.sums.scored.mismatch": 1.0,
        "verdicts.code.failed.overload": 1.0, "seconds_verdict": 0.5,
    }  # fmt: skip
    assert tally.metrics() == {}


@given(st.lists(st.sampled_from(["", "mismatch", UNVERIFIABLE]), max_size=60))
def test_a_few_unverifiable_responses_end_no_run_and_one_too_many_does(reasons: list[str]) -> None:
    tally, limit = Tally(0.01), 10
    for reason in reasons:
        tally.add("sums", "scored", reason, 0.5)
        tally.add("other", "scored", "", 0.5)
    if (count := reasons.count(UNVERIFIABLE)) <= limit:
        tally.check()
    else:
        said = rf"source sums: {count} of the last {len(reasons)} responses were unverifiable"
        with pytest.raises(RuntimeError, match=said):
            tally.check()


def test_the_latest_verdicts_count() -> None:
    """Neither is an early burst held against a run for ever, nor a late one hidden by its past."""
    tally = Tally(0.01)
    for reason in [UNVERIFIABLE] * 10 + [""] * WINDOW:
        tally.add("sums", "scored", reason, 0.5)
    for _ in range(10):
        tally.add("sums", "scored", UNVERIFIABLE, 0.5)
    tally.check()
    tally.add("sums", "scored", UNVERIFIABLE, 0.5)
    with pytest.raises(RuntimeError, match=r"11 of the last 1000 .*limit 1\.0%"):
        tally.check()


def test_sources_are_judged_apart() -> None:
    tally = Tally(0.01)
    for source in ("a", "b", "c"):
        for _ in range(10):
            tally.add(source, "scored", UNVERIFIABLE, 0.5)
    tally.check()


def test_no_count_is_lost_between_threads() -> None:
    tally = Tally(1.0)
    with ThreadPoolExecutor(4) as pool:
        adding = [pool.submit(tally.add, "sums", "scored", "", 0.5) for _ in range(4000)]
        seen = sum(tally.metrics().get("verdicts.sums.scored", 0.0) for _ in range(50))
        for each in adding:
            each.result()
    assert seen + tally.metrics().get("verdicts.sums.scored", 0.0) == 4000
