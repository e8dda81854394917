"""Figures of rounds, bars, and the section they are written to."""

from pathlib import Path

import pytest

from tests.bench.figures import Row, Spread, measured, table
from tests.bench.page import write_section


def test_ratios_are_taken_round_by_round() -> None:
    """A machine that is half as fast in one round leaves the ratio as it is."""
    assert (Spread([200, 100, 400]) / Spread([100, 50, 200])).values == [2, 2, 2]


def test_a_spread_tells_median_and_range() -> None:
    assert str(Spread([3.0, 1.25, 2.0])) == "2.00 (1.25 to 3.00)"
    assert str(Spread([1234.5])) == "1,234 (1,234 to 1,234)"


@pytest.mark.parametrize(
    ("value", "bar", "reached"),
    [(2.0, ">= 2", True), (1.99, ">= 2", False), (1.0, "<= 1", True), (1.01, "<= 1", False)],
)
def test_a_bar_is_reached_or_missed(value: float, bar: str, reached: bool) -> None:
    row = measured("it", Spread([value]), bar)
    assert row.reached == reached
    assert ("**no**" in str(row)) != reached


def test_a_row_without_a_bar_cannot_miss() -> None:
    assert table([Row("a", "1")]).splitlines()[-1] == "| a | 1 |  |  |"


def test_a_section_is_replaced_and_nothing_else(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text("before\n<!-- b: begin -->\nold\n<!-- b: end -->\nafter\n")
    for text in ("new", "newer"):
        write_section(page, "b", text)
    assert page.read_text() == "before\n<!-- b: begin -->\nnewer\n<!-- b: end -->\nafter\n"


def test_a_page_without_markers_is_left_alone(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text("text <!-- b: end --> <!-- b: begin -->")
    with pytest.raises(ValueError, match="lacks the markers"):
        write_section(page, "b", "new")
    assert page.read_text().startswith("text")
