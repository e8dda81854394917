from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from posttrain.training.schedules import ScheduleConfig

WSD = ScheduleConfig.model_validate({"wsd": {"warmup": 500, "decay": 48_000, "floor": "10%"}})
STEPS = 478_000


@pytest.mark.parametrize(
    ("done", "rate"),
    [
        (0, 0.0), (250, 5.5e-5), (500, 1.1e-4), (430_000, 1.1e-4), (430_480, 1.001e-4),
        (442_000, 6.05e-5), (454_000, 3.99964e-5), (478_000, 1.1e-5), (500_000, 1.1e-5),
    ],
)  # fmt: skip
def test_wsd_decays_with_one_minus_the_root(done: int, rate: float) -> None:
    assert 1.1e-4 * WSD.factor(done, STEPS) == pytest.approx(rate, rel=1e-5)


def test_lengths_may_be_shares_of_the_run() -> None:
    shares = ScheduleConfig.model_validate({"wsd": {"warmup": "5%", "decay": "40%"}})
    steps = ScheduleConfig.model_validate({"wsd": {"warmup": 10, "decay": 80}})
    assert [shares.factor(n, 200) for n in range(201)] == [steps.factor(n, 200) for n in range(201)]


def test_constant_stays_at_the_peak() -> None:
    constant = ScheduleConfig.model_validate({"constant": {"warmup": 4}})
    assert [constant.factor(n, 100) for n in (0, 1, 4, 99)] == [0, 0.25, 1, 1]
    assert ScheduleConfig.model_validate({"constant": {}}).factor(0, 100) == 1


def test_linear_and_cosine_reach_the_floor_at_the_end() -> None:
    linear = ScheduleConfig.model_validate({"linear": {"warmup": 10, "floor": "10%"}})
    assert [linear.factor(n, 110) for n in (0, 5, 10, 60, 110, 120)] == pytest.approx(
        [0, 0.5, 1, 0.55, 0.1, 0.1]
    )
    cosine = ScheduleConfig.model_validate({"cosine": {"warmup": 10, "floor": "10%"}})
    assert [cosine.factor(n, 110) for n in (5, 10, 35, 60, 110)] == pytest.approx(
        [0.5, 1, 0.1 + 0.9 * (2 + 2**0.5) / 4, 0.55, 0.1]
    )


@given(
    kind=st.sampled_from(["linear", "cosine"]), steps=st.integers(1, 500),
    warmup=st.floats(0, 1), floor=st.floats(0, 1),
)  # fmt: skip
def test_what_falls_rises_once_and_falls_to_the_end(
    kind: str, steps: int, warmup: float, floor: float
) -> None:
    schedule = ScheduleConfig.model_validate({kind: {"warmup": warmup, "floor": floor}})
    factors = [schedule.factor(done, steps) for done in range(steps + 1)]
    top = factors.index(max(factors))
    assert factors[: top + 1] == sorted(factors[: top + 1])
    assert factors[top:] == sorted(factors[top:], reverse=True)
    assert [schedule.settling(done, steps) for done in (0, steps + 1)] == [False, True]


def test_a_metric_may_end_a_run_only_where_its_rate_has_settled() -> None:
    assert not WSD.settling(430_000, STEPS)
    assert WSD.settling(430_001, STEPS)
    constant = ScheduleConfig.model_validate({"constant": {"warmup": 4}})
    assert [constant.settling(n, 100) for n in (4, 5)] == [False, True]


@given(
    steps=st.integers(1, 500), warmup=st.floats(0, 0.5), decay=st.floats(0, 0.5),
    floor=st.floats(0, 1),
)  # fmt: skip
def test_wsd_rises_then_falls_within_its_bounds(
    steps: int, warmup: float, decay: float, floor: float
) -> None:
    wsd = {"warmup": warmup, "decay": decay, "floor": floor}
    schedule = ScheduleConfig.model_validate({"wsd": wsd})
    factors = [schedule.factor(done, steps) for done in range(steps + 2)]
    top = factors.index(max(factors))
    assert all(0 <= factor <= 1 for factor in factors)
    assert factors[: top + 1] == sorted(factors[: top + 1])
    assert factors[top:] == sorted(factors[top:], reverse=True)


@pytest.mark.parametrize(
    "wrong", [{}, {"wsd": {"warmup": "5%"}}, {"constant": {"warmup": "120%"}},
              {"constant": {}, "wsd": {"warmup": 1, "decay": 1}}],
)  # fmt: skip
def test_wrong_configs_are_refused(wrong: dict[str, Any]) -> None:
    with pytest.raises(ValidationError):
        ScheduleConfig.model_validate(wrong)
