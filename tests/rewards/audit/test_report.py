"""Bounds on error rates: what is not shown does not hold."""

import pytest

from rewards.audit.report import Audited, Differential, Rate, Report


def report(accepts: Rate, rejects: Rate | None = None) -> Report:
    audited = Audited(
        verifier="math", digest="d", false_accepts=accepts,
        false_rejects=rejects or Rate(wrong=0, unknown=0, total=1000),
        passed={"metamorphic": (9, 10)}, differential=None, missed=[],
    )  # fmt: skip
    return Report(seed=0, probes=10, verifiers=[audited])


def test_many_probes_without_error_show_a_low_rate() -> None:
    assert not report(Rate(wrong=0, unknown=0, total=400)).exceeded(max_false_accept=0.01)


@pytest.mark.parametrize(
    "rate",
    [
        Rate(wrong=0, unknown=0, total=0),
        Rate(wrong=0, unknown=0, total=100),  # Too few to show 1 %.
        Rate(wrong=1, unknown=0, total=400),
        Rate(wrong=0, unknown=1, total=400),
    ],
)
def test_what_is_not_shown_exceeds_the_bound(rate: Rate) -> None:
    (told,) = report(rate).exceeded(max_false_accept=0.01)
    assert told.startswith("math: up to ")


def test_bounds_are_apart() -> None:
    found = report(Rate(wrong=0, unknown=0, total=0), Rate(wrong=99, unknown=0, total=100))
    assert found.exceeded() == []
    (told,) = found.exceeded(max_false_reject=0.5)
    assert "false rejects (99 wrong and 0 unknown of 100)" in told


def test_it_can_be_read_back() -> None:
    first = report(Rate(wrong=1, unknown=2, total=30))
    assert Report.model_validate_json(first.model_dump_json()) == first


def test_lines_tell_rates_with_their_uncertainty() -> None:
    lines = list(report(Rate(wrong=1, unknown=0, total=100)).lines())
    assert lines[0].startswith("math false_accepts=1/100 (95 %: 0.18 to 5.45 %)")
    assert lines[1] == "  metamorphic 9/10"


def test_labels_say_who_is_wrong_where_the_reference_differs() -> None:
    (audited,) = report(Rate(wrong=0, unknown=0, total=1)).verifiers
    other = Differential(
        reference="Math-Verify", compared=40, agreed=37, reference_wrong=2, verifier_wrong=1
    )
    assert list(audited.model_copy(update={"differential": other}).lines())[-1] == (
        "  differential 37/40 agree with Math-Verify; of the others, by the labels, it is wrong "
        "in 2 and math in 1"
    )
