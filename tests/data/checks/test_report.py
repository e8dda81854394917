"""Counting findings, and when an outcome may not be used."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from posttrain.data.checks import CHECKS, identity, module
from posttrain.data.checks.report import Finding, Findings, Parameters
from posttrain.data.checks.rows import Place, Row
from rewards.wilson import interval

REASONS = st.lists(st.lists(st.sampled_from(["bad", "odd"]), max_size=3), max_size=30)


def rows(count: int) -> list[Row]:
    return [Row(Place("talk", "talk.jsonl", n), {"id": "same"}) for n in range(1, count + 1)]


@given(REASONS)
def test_each_row_counts_once_and_goes_by_its_place(reasons: list[list[str]]) -> None:
    findings = Findings("some", Parameters(remove=("bad",), examples=2), ["talk"])
    every = rows(len(reasons))
    for row, found in zip(every, reasons, strict=True):
        findings.take(row, [Finding("text", reason) for reason in found])
    outcome = findings.outcome()
    report = outcome.report
    bad = sum("bad" in found for found in reasons)
    assert (report.rows, report.removed) == (len(reasons), bad)
    assert report.reasons["odd"] == sum("odd" in found for found in reasons)
    assert list(outcome.kept(every)) == [
        row for row, found in zip(every, reasons, strict=True) if "bad" not in found
    ]
    assert len(report.examples) == min(bad, 2) + min(report.reasons["odd"], 2)


def test_more_than_the_cap_is_refused_unless_waived() -> None:
    asked = Parameters(remove=("bad",), most_removed=0.05)
    waived = Parameters(remove=("bad",), most_removed=0.05, waivers={"talk": 0.5})
    outcomes = []
    for parameters in (asked, waived):
        findings = Findings("some", parameters, ["talk"])
        for row in rows(10):
            findings.take(row, [Finding("", "bad")] if row.place.number == 4 else [])
        outcomes.append(findings.outcome())
    with pytest.raises(ValueError, match=r"remove 1 of 10 rows \(10.0%\) of talk.*waivers.talk"):
        outcomes[0].require()
    outcomes[1].require()


def test_what_stays_with_a_reason_to_refuse_names_the_first_row() -> None:
    findings = Findings("some", Parameters(remove=("bad",), refuse=("odd",)), ["talk"])
    for row, found in zip(rows(3), ([], ["bad", "odd"], ["odd"]), strict=True):
        findings.take(row, [Finding("text", reason, "so") for reason in found])
    with pytest.raises(ValueError, match=r"some: 1 row with odd, .*row 3: text: so$"):
        findings.outcome().require()


def test_a_dataset_without_rows_is_in_the_report() -> None:
    report = Findings("some", Parameters(), ["empty"]).outcome().report
    assert report.datasets["empty"].rows == 0


@given(st.integers(0, 300), st.integers(0, 300))
def test_the_interval_holds_the_rate_and_narrows(hits: int, more: int) -> None:
    low, high = interval(hits, hits + more)
    if hits + more:
        assert 0 <= low <= hits / (hits + more) <= high <= 1
        wider = interval(10 * hits, 10 * (hits + more))
        assert wider[1] - wider[0] < high - low
    else:
        assert (low, high) == (0, 1)


def test_the_interval_as_published() -> None:
    # Newcombe, Statistics in Medicine 17 (1998) 857, table I: 81/263 and 0/20.
    assert interval(81, 263) == pytest.approx((0.2553, 0.3662), abs=5e-5)
    assert interval(0, 20) == pytest.approx((0.0, 0.1611), abs=5e-5)


def test_an_outcome_is_known_by_all_that_decides_it() -> None:
    given_inputs: dict[str, Any] = {
        "seed": 0,
        "data": {"a": "1"},
        "benchmarks": {"b": "1"},
        "tokenizer": "t",
    }
    first = identity("decontamination", {}, **given_inputs)
    assert identity("decontamination", {}, **given_inputs) == first
    for change in ({"benchmarks": {"b": "2"}}, {"data": {"a": "2"}}, {"tokenizer": "u"}):
        assert identity("decontamination", {}, **{**given_inputs, **change}) != first
    other = {**given_inputs, "benchmarks": {"b": "2"}}
    assert identity("pii", {}, **other) == identity("pii", {}, **given_inputs)


@pytest.mark.parametrize("name", CHECKS)
def test_checks_have_one_shape(name: str) -> None:
    check = module(name)
    assert issubclass(check.Parameters, Parameters)
    assert set(check.NEEDS) <= {"benchmarks", "chat"}


def test_an_unknown_check_is_refused() -> None:
    with pytest.raises(ValueError, match="unknown check 'spelling'; known checks: decontam"):
        module("spelling")
