"""The speed-ups that verl and AReaL publish come out of their settings."""

import pytest

from tests.simulation.published import AREAL, STREAMED, VERL, Verl, areal_ratio, verl_ratios

STEPS = 12


@pytest.mark.parametrize("run", VERL, ids=lambda run: str(run.accelerators))
def test_verl(run: Verl) -> None:
    ratio, streamed = verl_ratios(run, STEPS)
    low, high = run.between
    assert low * 0.95 <= ratio <= high * 1.05
    if run.accelerators == 128:
        assert streamed == pytest.approx(STREAMED, rel=0.15)
        assert ratio == pytest.approx(run.step / run.asynchronous, rel=0.15)


def test_areal() -> None:
    assert areal_ratio(STEPS) == pytest.approx(AREAL, rel=0.15)
