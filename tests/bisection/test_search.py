"""The search finds a turn with as few looks as it says, whatever the points are like."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from posttrain.bisection.search import first_bad, looks, turns


def looked(verdicts: list[bool]) -> tuple[int, int]:
    """What was found, and how many points were looked at with both ends."""
    asked: list[int] = []

    def good(at: int) -> bool:
        asked.append(at)
        return verdicts[at]

    found = first_bad(len(verdicts), good)
    assert len(set(asked)) == len(asked)
    assert not {0, len(verdicts) - 1} & set(asked)
    return found, len(asked) + 2


@given(st.integers(1, 300), st.integers(1, 300))
def test_the_first_bad_of_a_monotone_row_is_found(good: int, bad: int) -> None:
    found, count = looked([True] * good + [False] * bad)
    assert found == good
    assert count <= looks(good + bad)


@given(st.lists(st.booleans(), max_size=60))
def test_of_any_row_a_turn_is_found(between: list[bool]) -> None:
    verdicts = [True, *between, False]
    found, count = looked(verdicts)
    assert found in turns(verdicts)
    assert count <= looks(len(verdicts))


@pytest.mark.parametrize(("count", "most"), [(2, 2), (3, 3), (4, 4), (9, 5), (33, 7), (1025, 12)])
def test_looks_are_logarithmic(count: int, most: int) -> None:
    assert looks(count) == most
