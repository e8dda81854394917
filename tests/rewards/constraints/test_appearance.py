"""A text as its reader sees it: what always holds, and what is left alone."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rewards.verifiers.constraints.appearance import latin, plain, shown

TEXTS = st.text(max_size=60) | st.text(st.sampled_from("ab *~<>/аοｗⓐ\u200b\u3164́é½…™ـ一"))


@settings(deadline=None)
@given(TEXTS)
def test_what_is_shown_keeps_all_that_shows(text: str) -> None:
    kept = [sign for sign in shown(text) if sign != " "]
    assert shown(shown(text)) == shown(text)
    assert [sign for sign in text if sign in kept and sign != " "] == kept


@settings(deadline=None)
@given(TEXTS)
def test_latin_is_as_long_as_plain_but_for_stacked_marks(text: str) -> None:
    assert len(latin(text)) <= len(plain(text))


@pytest.mark.parametrize(
    "text",
    [
        "snake_case, 2 * 3 * 4, a * b, **bold** *it*",
        "Приветствие и сорт",
        "το χρώμα",
        "α",
        "x < y > z, ~5",
        "naïve résumé",
        "हिन्दी ไทย",
    ],
)
def test_an_ordinary_text_stays_as_it_is(text: str) -> None:
    assert latin(text) == text


@pytest.mark.parametrize(
    ("text", "read"),
    [
        ("Acme™ x² ½ ①", "Acme  x2 12 1"),
        ("w*a*r ~~w~~ar **w****a****r**", "war war war"),
        ("сор said", "cop said"),
        ("сор Привет said", "сор Привет said"),
        ("hаt Привет", "hat Привет"),
    ],
)
def test_what_a_reader_reads(text: str, read: str) -> None:
    assert latin(text) == read


@pytest.mark.timeout(60)
@pytest.mark.parametrize(
    "piece", ["*", "a*", "*a ", "~~a", "<b", "а", "é\u0301", ".*", ".“", "A.B"]
)
def test_time_is_not_quadratic_in_marks(piece: str) -> None:
    long = piece * (100_000 // len(piece)) + "ａ"
    assert latin(long).endswith("a")
