"""Labelled cases through one live service, a test each; `cases/` holds them and their sources.

They agree, the policy cases too; no exception is made for any.
"""

import asyncio
from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest

from rewards.audit.cases import judge
from rewards.audit.corpus import Case, read
from rewards.audit.hosting import rewards_service
from rewards.audit.tally import Outcome

CASES = list(read(Path(__file__).parent / "cases"))


def cases(*verifiers: str) -> list[Case]:
    return [case for case in CASES if case.item.verifier in verifiers]


def parameters(*verifiers: str) -> list[object]:
    return [pytest.param(case, id=case.item.id) for case in cases(*verifiers)]


@pytest.fixture(scope="session")
def url() -> Iterator[str]:
    """A service with every verifier that needs no other service."""
    with rewards_service(["answer", "constraints", "math"]) as running:
        yield running


@pytest.fixture(scope="session")
def outcomes(url: str) -> Mapping[str, Outcome]:
    """What that service says about each case."""
    return by_name(url, cases("answer", "constraints", "math"))


@pytest.fixture(scope="session")
def code_outcomes() -> Mapping[str, Outcome]:
    """What a service with a sandbox says about each code case."""
    with rewards_service(["code"]) as running:
        return by_name(running, cases("code"))


def by_name(url: str, chosen: list[Case]) -> Mapping[str, Outcome]:
    return {outcome.case.item.id: outcome for outcome in asyncio.run(judge(url, chosen))}


@pytest.mark.parametrize("case", parameters("answer", "constraints", "math"))
def test_the_verdict_agrees_with_the_label(case: Case, outcomes: Mapping[str, Outcome]) -> None:
    assert_agrees(outcomes[case.item.id])


@pytest.mark.parametrize("case", parameters("code"))
def test_code_cases_agree(case: Case, code_outcomes: Mapping[str, Outcome]) -> None:
    assert_agrees(code_outcomes[case.item.id])


def assert_agrees(outcome: Outcome) -> None:
    assert outcome.finding == "agreed", f"{outcome.case.note}: {outcome.verdict}"
    assert outcome.verdict.reason != "unverifiable", outcome.verdict


def test_verdicts_do_not_depend_on_company(url: str, outcomes: Mapping[str, Outcome]) -> None:
    """Alone, each case gets the verdict it gets in a batch."""
    chosen = cases("answer", "constraints", "math")[::12]
    alone = [outcome for case in chosen for outcome in asyncio.run(judge(url, [case]))]
    together = [outcomes[case.item.id] for case in chosen]
    assert [(o.verdict.id, o.verdict.score) for o in alone] == [
        (o.verdict.id, o.verdict.score) for o in together
    ]
