"""Audits of live services: a sound one, one that pays for everything, and one that is down."""

from collections.abc import Iterator

import pytest

from rewards.audit import run
from rewards.audit.report import Rate
from tests.rewards.service import Service, serving

LENIENT = "tests.rewards.audit.lenient"


@pytest.fixture(scope="module")
def lenient(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Service]:
    folder = tmp_path_factory.mktemp("lenient")
    with serving(folder, "--verifiers", f"answer={LENIENT}") as running:
        yield running


def test_a_sound_verifier_passes(service: Service) -> None:
    report = run(service.url, verifiers=["answer", "math"], probes=40)
    answer, math = report.verifiers
    assert answer.false_accepts == Rate(wrong=0, unknown=0, total=41)
    assert answer.false_rejects == Rate(wrong=0, unknown=0, total=41)
    assert (math.false_accepts.wrong, math.missed) == (0, [])
    assert math.passed["conformance"][0] == math.passed["conformance"][1] > 0
    assert answer.digest
    assert math.differential is not None
    assert math.differential.compared > 30
    assert math.differential.verifier_wrong == 0


def test_a_verifier_that_pays_for_everything_is_found_out(lenient: Service) -> None:
    report = run(lenient.url, verifiers=["answer"], probes=40)
    (audited,) = report.verifiers
    assert audited.false_accepts == Rate(wrong=41, unknown=0, total=41)
    assert audited.false_rejects.wrong == 0
    assert {each.right for each in audited.missed} == {False}
    assert report.exceeded(max_false_accept=0.5)


def test_a_verifier_that_is_not_served_is_no_success(lenient: Service) -> None:
    """It abstains from every wrong item, which might look like no false accept at all."""
    with pytest.raises(ValueError, match="does not serve constraints"):
        run(lenient.url, verifiers=["constraints"], probes=10)


def test_there_are_no_probes_for_a_stranger() -> None:
    with pytest.raises(ValueError, match="no probes for 'oracle'"):
        run("http://127.0.0.1:9", verifiers=["oracle"])
