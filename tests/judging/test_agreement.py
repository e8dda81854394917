import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from posttrain.judging.agreement import kendall, spearman

ORDERS = st.permutations(list(range(7)))
VALUES = st.lists(st.tuples(st.integers(-4, 4), st.integers(-4, 4)), min_size=2, max_size=12)


@given(ORDERS)
def test_without_ties_they_are_the_textbook_formulas(order: list[int]) -> None:
    known = list(range(7))
    squares = sum((a - b) ** 2 for a, b in zip(known, order, strict=True))
    assert spearman(known, order) == pytest.approx(1 - 6 * squares / (7 * 48))
    inversions = sum(order[i] > order[j] for i in known for j in known[i + 1 :])
    assert kendall(known, order) == pytest.approx(1 - 2 * inversions / 21)


@pytest.mark.parametrize(
    ("left", "right", "rho", "tau"),
    [
        ([1, 1, 2], [1, 2, 3], math.sqrt(3) / 2, 2 / math.sqrt(6)),
        ([1, 2, 3, 4], [1, 1, 1, 0], -math.sqrt(15) / 5, -3 / math.sqrt(18)),
        ([1, 2, 3], [5, 5, 5], 0, 0),
    ],
)
def test_ties(left: list[float], right: list[float], rho: float, tau: float) -> None:
    assert spearman(left, right) == pytest.approx(rho)
    assert kendall(left, right) == pytest.approx(tau)


@given(VALUES)
def test_they_are_even_and_turn_with_either_list(pairs: list[tuple[int, int]]) -> None:
    left, right = (list(map(float, each)) for each in zip(*pairs, strict=True))
    for measure in (spearman, kendall):
        found = measure(left, right)
        assert -1 - 1e-9 <= found <= 1 + 1e-9
        assert measure(right, left) == pytest.approx(found)
        assert measure(left, [-value for value in right]) == pytest.approx(-found)


def test_lists_that_do_not_match_are_refused() -> None:
    for left, right in (([1.0], [1.0]), ([1.0, 2.0], [1.0])):
        with pytest.raises(ValueError, match="give two or more"):
            kendall(left, right)
        with pytest.raises(ValueError, match="give two or more"):
            spearman(left, right)
