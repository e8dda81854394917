"""Quantities are read as written and written as read."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import TypeAdapter, ValidationError

from posttrain.quantities import Points, Share

SHARE: TypeAdapter[float] = TypeAdapter(Share)
POINTS: TypeAdapter[float] = TypeAdapter(Points)


@pytest.mark.parametrize(
    ("written", "held"), [("30%", 0.3), (0.3, 0.3), ("2.5 %", 0.025), (1, 1.0)]
)
def test_a_share_is_a_fraction(written: object, held: float) -> None:
    assert SHARE.validate_python(written) == pytest.approx(held)


@pytest.mark.parametrize("wrong", ["130%", -0.1, "much", "30 points", 2])
def test_a_wrong_share_is_refused(wrong: object) -> None:
    with pytest.raises(ValidationError):
        SHARE.validate_python(wrong)


@pytest.mark.parametrize("wrong", [10, 0.1, "10", "10%", "-1 points"])
def test_points_need_their_unit(wrong: object) -> None:
    with pytest.raises(ValidationError):
        POINTS.validate_python(wrong)


@given(st.decimals(0, 100, places=3))
def test_points_survive_being_archived(value: object) -> None:
    held = POINTS.validate_python(f"{value} points")
    archived = POINTS.dump_python(held, mode="json")
    assert POINTS.validate_python(archived) == pytest.approx(held)
