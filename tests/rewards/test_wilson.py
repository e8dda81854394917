"""Wilson's interval: known values, and what must hold for any counts."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rewards.wilson import interval


@pytest.mark.parametrize(
    ("hits", "total", "low", "high"),
    [
        (0, 10, 0.0, 0.2775),
        (5, 10, 0.2366, 0.7634),
        (10, 10, 0.7225, 1.0),
        (1, 100, 0.0018, 0.0545),
    ],
)
def test_published_values(hits: int, total: int, low: float, high: float) -> None:
    assert interval(hits, total) == pytest.approx((low, high), abs=5e-5)


def test_of_nothing_nothing_is_known() -> None:
    assert interval(0, 0) == (0.0, 1.0)


@given(st.integers(1, 10**6).flatmap(lambda n: st.tuples(st.integers(0, n), st.just(n))))
def test_it_holds_the_rate_and_mirrors(counts: tuple[int, int]) -> None:
    hits, total = counts
    low, high = interval(hits, total)
    assert 0 <= low <= hits / total <= high <= 1
    assert interval(total - hits, total) == pytest.approx((1 - high, 1 - low))


@given(st.integers(1, 1000), st.integers(2, 50))
def test_more_trials_tell_more(total: int, times: int) -> None:
    assert interval(0, total)[1] > interval(0, total * times)[1]
