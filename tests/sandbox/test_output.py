"""Checkers of what a program prints."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sandbox.judging.output import agrees
from sandbox.schema import Checker

LINES = st.lists(st.text(alphabet="ab 1.\t"), max_size=4).map("\n".join)


@pytest.mark.parametrize(
    ("checker", "expected", "got", "same"),
    [
        ("tokens", "1 2\n", "1   2", True), ("tokens", "1 2\n", "1\n2\n", True),
        ("tokens", "5", "5.0", True), ("tokens", "5", "5.0000001", False),
        ("tokens", "100", "1e2", True), ("tokens", "YES", "Yes", False), ("tokens", "", "\n", True),
        ("tokens", "", "0", False), ("tokens", "1", "1 1", False), ("tokens", "1", "１", False),
        ("tokens", "1000", "1_000", False), ("tokens", "nan", "NaN", False),
        ("tokens", "a", "a\x00", False), ("tokens", "1", "1e999999999", False),
        ("tokens", "é", "é", True), ("tokens", "a b", "a\u00a0b", False),
        ("lines", "1 2\n3\n", "\n1 2 \n3\n\n", True), ("lines", "1 2\n", "1\n2\n", False),
        ("lines", "1 2", "1.0 2.0", True), ("lines", "x 2", "x 2.0", False),
        ("exact", "a\n", "a", True), ("exact", "a b", "a  b", False), ("exact", "a", " a", False),
        ("exact", "5", "5.0", False),
        ("float", "0.333333", "0.3333333", True), ("float", "0.3333", "0.3334", False),
        ("float", "x 1.0", "x 1.0000001", True), ("float", "1", "nan", False),
        ("float", "inf", "1e300", False), ("float", "1", "one", False),
    ],
)  # fmt: skip
def test_checkers(checker: Any, expected: str, got: str, same: bool) -> None:
    assert agrees(Checker(type=checker), expected, got.encode()) is same


def test_numerals_beyond_all_floats_are_not_near_each_other() -> None:
    """Each was infinite as a float, and so equal to any other, and to `inf`."""
    huge = "1" * 400
    for got in ("2" * 400, "inf", "1e999", "-" + huge):
        assert not agrees(Checker(type="float"), huge, got.encode())
        assert not agrees(Checker(type="float"), got, huge.encode())
    assert agrees(Checker(type="float"), huge, huge.encode())
    assert agrees(Checker(type="float"), "inf", b"Infinity")


@given(LINES, st.sampled_from(["tokens", "lines", "exact", "float"]))
def test_the_expected_output_agrees_with_itself(text: str, checker: Any) -> None:
    assert agrees(Checker(type=checker), text, text.encode())


@given(LINES, LINES)
def test_the_stricter_checker_agrees_less(expected: str, got: str) -> None:
    verdicts = [
        agrees(Checker(type=checker), expected, got.encode())
        for checker in ("exact", "lines", "tokens", "float")
    ]
    assert verdicts == sorted(verdicts)


def test_what_is_no_utf8_never_agrees_with_a_text() -> None:
    assert not agrees(Checker(), "\ufffd", b"\xff")


def test_a_long_word_that_is_almost_a_number_is_read_in_one_go() -> None:
    """The service once stood still over it: for each digit it began again."""
    for checker in ("tokens", "lines", "float"):
        assert not agrees(Checker(type=checker), "1", b"1" * 10**6 + b"x")
        assert not agrees(Checker(type=checker), "1" * 10**6, b"1" * 10**6 + b".x")
