"""Fitting: as many units as a limit allows, asked for a few times."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from posttrain.data.longcontext.fitting import largest


@given(
    st.integers(0, 500), st.integers(1, 60), st.integers(0, 10), st.integers(0, 200_000),
    st.integers(0, 20),
)  # fmt: skip
def test_what_fits_is_near_the_limit(
    base: int, each: int, noise: int, room: int, least: int
) -> None:
    asked = []

    def length(count: int) -> int:
        asked.append(count)
        return base + each * count + (hash((count, noise)) % (noise + 1))

    limit = length(least) + room
    found = largest(length, limit, least=least)
    assert found >= least
    assert length(found) <= limit
    assert limit - length(found) <= max(3 * each + 2 * noise, limit / 100)
    assert len(asked) <= 12


def test_what_does_not_fit_at_all_is_said() -> None:
    with pytest.raises(ValueError, match="3 units have 30 tokens and there is room for 29"):
        largest(lambda count: 10 * count, 29, least=3)
