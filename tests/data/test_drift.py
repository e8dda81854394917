"""Drift: none while sources last, told once when one runs dry."""

from itertools import islice

from hypothesis import given
from hypothesis import strategies as st

from posttrain.data.drift import Drift, Watch
from posttrain.training.batches import shuffled

SIZES = st.lists(st.integers(1, 50), min_size=4, max_size=40)


def watched(sizes: dict[str, list[int]], share: float, steps: int, **how: object) -> list[Drift]:
    """What is told of a run of steps of eight examples."""
    declared = {"a": share, "b": 1 - share}
    places = shuffled(sizes, declared, 1, **how)  # type: ignore[arg-type]
    watch, found = Watch(declared), []
    largest = max(map(max, sizes.values()))
    for _ in range(steps):
        amounts = dict.fromkeys(declared, 0.0)
        for place in islice(places, 8):
            amounts[place.source] += sizes[place.source][place.row]
        found += watch.drawn(amounts, largest)
    return found


@given(SIZES, SIZES, st.floats(0.05, 0.95), st.integers(1, 20))
def test_what_keeps_its_share_is_not_told(
    a: list[int], b: list[int], share: float, steps: int
) -> None:
    assert watched({"a": a, "b": b}, share, steps) == []


def test_a_source_that_runs_dry_is_told_once() -> None:
    sizes = {"a": [10] * 20, "b": [10] * 400}
    found = watched(sizes, 0.5, 40, supply={"a": 20, "b": 400}, reweight=True)
    assert [each.source for each in found] == ["a", "b"]
    assert str(found[0]) == "a gives 41.7% and was to give 50.0%"


def test_nothing_drawn_has_no_shares() -> None:
    watch = Watch({"a": 1.0})
    assert watch.shares() == {}
    assert list(watch.drawn({"a": 0.0}, 1)) == []
