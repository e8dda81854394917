"""The order of prompts: every row as often as any other, shares kept at any point, resumable."""

from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from posttrain.rl.order import Order

SIZES = st.lists(st.integers(1, 7), min_size=1, max_size=4)


def _rows(sizes: list[int]) -> list[str]:
    return [f"s{number}" for number, size in enumerate(sizes) for _ in range(size)]


@given(SIZES, st.integers(0, 60), st.integers(0, 60))
def test_it_goes_on_from_its_state_as_if_nothing_had_happened(
    sizes: list[int], before: int, after: int
) -> None:
    whole, first, second = (Order(_rows(sizes), {}, seed=3) for _ in range(3))
    expected = [whole.draw() for _ in range(before + after)]
    drawn = [first.draw() for _ in range(before)]
    second.load_state_dict(first.state_dict())
    assert drawn + [second.draw() for _ in range(after)] == expected
    assert [place.number for place in expected] == list(range(before + after))


@given(SIZES, st.integers(1, 4))
def test_no_row_comes_again_before_all_of_its_source_came(sizes: list[int], epochs: int) -> None:
    order = Order(_rows(sizes), {}, seed=1)
    drawn = [order.draw() for _ in range(epochs * sum(sizes))]
    for source in {place.source for place in drawn}:
        own = [place.row for place in drawn if place.source == source]
        size = _rows(sizes).count(source)
        for start in range(0, len(own) - size + 1, size):
            assert len(set(own[start : start + size])) == size


@given(st.lists(st.integers(1, 20), min_size=1, max_size=4), st.integers(1, 120))
def test_each_source_has_its_share_of_any_beginning(weights: list[int], count: int) -> None:
    shares = {f"s{i}": weight / sum(weights) for i, weight in enumerate(weights)}
    order = Order(_rows([3] * len(weights)), shares, seed=0)
    drawn = Counter(order.draw().source for _ in range(count))
    for source, share in shares.items():
        assert abs(drawn[source] - share * count) <= len(shares)


def test_another_seed_is_another_order_and_epochs_differ() -> None:
    one, other = Order(["a"] * 30, {}, seed=1), Order(["a"] * 30, {}, seed=2)
    rows = [one.draw().row for _ in range(60)]
    assert rows[:30] != rows[30:]
    assert rows[:30] != [other.draw().row for _ in range(30)]


def test_a_dropped_source_gives_nothing_more_also_after_a_resume() -> None:
    order = Order(["a"] * 4 + ["b"] * 4, {"a": 0.5, "b": 0.5}, seed=0)
    for _ in range(4):
        order.draw()
    order.drop("a")
    resumed = Order(["a"] * 4 + ["b"] * 4, {"a": 0.5, "b": 0.5}, seed=0)
    resumed.load_state_dict(order.state_dict())
    assert {resumed.draw().source for _ in range(10)} == {"b"}
    assert resumed.number == 14
    with pytest.raises(ValueError, match="b is the only source left"):
        resumed.drop("b")


def test_the_state_of_other_sources_is_refused() -> None:
    with pytest.raises(ValueError, match="the checkpoint is of sources a, the run of b"):
        Order(["b"], {}, seed=0).load_state_dict(Order(["a"], {}, seed=0).state_dict())
