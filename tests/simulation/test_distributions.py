"""Draws have the median, tail and counts they are told to have."""

from collections import Counter
from statistics import quantiles

import pytest

from posttrain.simulation.distributions import CountsConfig, LognormalConfig, drawer, scaled

MANY = 20_000


def test_a_lognormal_has_its_median_and_its_tail() -> None:
    drawn = drawer(LognormalConfig(median=100, p99=900), "s")(MANY)
    cuts = quantiles(drawn, n=100)
    assert cuts[49] == pytest.approx(100, rel=0.05)
    assert cuts[98] == pytest.approx(900, rel=0.1)


def test_a_lognormal_is_cut_where_generation_is() -> None:
    drawn = drawer(LognormalConfig(median=100, p99=900, most=300), "s")(MANY)
    assert max(drawn) == 300
    assert 0.05 < drawn.count(300) / MANY < 0.2


def test_counts_are_drawn_as_often_as_they_were_seen() -> None:
    drawn = Counter(drawer(CountsConfig(counts={3: 1, 7: 3, 9: 0}), "s")(MANY))
    assert set(drawn) == {3, 7}
    assert drawn[7] / MANY == pytest.approx(0.75, abs=0.02)


def test_draws_depend_on_the_seed_alone() -> None:
    tail = LognormalConfig(median=1, p99=9)
    assert drawer(tail, "a")(9) == drawer(tail, "a")(9) != drawer(tail, "b")(9)
    piecewise = drawer(tail, "a")
    assert [*piecewise(4), *piecewise(5)] == drawer(tail, "a")(9)


@pytest.mark.parametrize(
    "each", [2.0, LognormalConfig(median=1, p99=9, most=20), CountsConfig(counts={3: 1, 7: 3})]
)
def test_scaling_scales_what_is_drawn(each: float | LognormalConfig | CountsConfig) -> None:
    doubled = [2 * value for value in drawer(each, "s")(50)]
    assert drawer(scaled(each, 2), "s")(50) == pytest.approx(doubled)


def test_a_histogram_of_nothing_is_refused() -> None:
    with pytest.raises(ValueError, match="all counts are 0"):
        CountsConfig(counts={3: 0})
