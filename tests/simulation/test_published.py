"""The speed-ups that verl and AReaL publish come out of their settings."""

import pytest

from posttrain.simulation.outcome import simulate_synchronous
from tests.simulation.published import AREAL, STREAMED, VERL, Verl, areal_ratio, verl, verl_ratios

STEPS = 10


@pytest.mark.parametrize("run", VERL, ids=lambda run: str(run.accelerators))
def test_verl(run: Verl) -> None:
    synchronous = simulate_synchronous(verl(run, steps=2), streamed=True)
    assert synchronous.step_seconds == pytest.approx(run.step, rel=0.03)
    ratio, streamed = verl_ratios(run, STEPS)
    low, high = run.between
    assert low * 0.95 <= ratio <= high * 1.05
    if run.accelerators == 128:
        assert streamed == pytest.approx(STREAMED, rel=0.15)
        assert ratio == pytest.approx(run.step / run.asynchronous, rel=0.15)


def test_areal() -> None:
    assert areal_ratio(30) == pytest.approx(AREAL, rel=0.15)
