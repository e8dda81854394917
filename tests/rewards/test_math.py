"""House rules of mathematical equality, each with both outcomes, and properties of spelling."""

from fractions import Fraction

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rewards.schema import Item
from rewards.verifiers.latex import boxed, spell
from rewards.verifiers.math import verify

RATIONALS = st.fractions(max_denominator=50).filter(lambda f: abs(f) < 10**6)


def score(gold: str, answer: str) -> float | None:
    return verify(Item(id="i", verifier="math", gold=gold, answers=[answer])).score


@pytest.mark.parametrize(
    ("gold", "equal", "other"),
    [
        ("1234567", r"1\,234\,567", "123456"),
        ("1234.5", "€1,234.50", "1234.6"),
        ("602000000000000000000000", "6.02e23", "6.02e22"),
        ("1", "1.0", "1e400"),
        ("0.28", r"28\%", r"0.28\%"),
        (r"28\%", "0.28", "2.8"),
        (r"\frac{3}{4}", r"75\%", r"7.5\%"),
        ("204_5", "204_{5}", "204_6"),
        (r"15\text{ cm}", "15 centimeters", r"15\text{ m}"),
        (r"\text{(C)}", r"\text{C: about 3 metres}", "D"),
        (r"\text{Tuesday}", "tuesday", r"\text{Monday}"),
        ("3", r"\sqrt{9}", r"\pm 3"),
        ("5", "x = 5", "x > 5"),
        ("7 = 11a + c", "11a+c=7", "11a + c"),
        (r"\frac{1}{2^{99}}", "2^{-99}", r"\frac{1}{2^{98}}"),
        (r"\frac{1}{2004!}", r"\frac{2005}{2005!}", r"\frac{1}{2006!}"),
        ("10^{10^{10}}", "10^{10^{10}}", "1"),
        ("-1", r"e^{i\pi}", r"e^{i\pi/2}"),
        (r"\frac{1}{2}", "½", "⅓"),
        ("3\\sqrt{2}", "√18", "√17"),
        ("x^2", "x²", "x2"),
        ("e^{16}", "exp(16)", "exp(17)"),
        ("(1,234)", "(1, 234)", "1234"),
        ("1", "1.", r"\frac{0}{0}"),
    ],
)
def test_kinds_that_math_verify_alone_gets_wrong(gold: str, equal: str, other: str) -> None:
    assert (score(gold, equal), score(gold, other)) == (1.0, 0.0)


@pytest.mark.parametrize("huge", ["10^{10^{10}}", "9^{9^{9^{9}}}", "(10^7)!", "((9!)!)!"])
def test_huge_numbers_are_not_evaluated(huge: str) -> None:
    assert score("3", huge) == 0.0


@pytest.mark.parametrize(
    ("text", "content"),
    [
        (r"\boxed{3} no, \boxed{4}", "4"),
        (r"\boxed{4}. A bare \boxed is none, nor is \boxed{5", "4"),
        (r"\boxed {4}", "4"),
        (r"\boxed{\{1,\frac{1}{2}\}}", r"\{1,\frac{1}{2}\}"),
        (r"\boxed{\fbox{4}}", "4"),
        (r"\(\boxed{1}\) and \(\boxed{-2}\)", "1, -2"),
        (r"\boxed{4}, \boxed{4}", "4"),
        ("none", None),
    ],
)
def test_the_last_closed_box_counts(text: str, content: str | None) -> None:
    assert boxed(text) == content


def test_deliberation_and_silence_earn_nothing() -> None:
    for response in (r"<|inner_prefix|>\boxed{4}<|inner_suffix|>Done.", "I do not know.", ""):
        verdict = verify(Item(id="i", verifier="math", gold="4", response=response))
        assert (verdict.score, verdict.reason) == (0.0, "no_answer")


@given(RATIONALS, RATIONALS)
@settings(max_examples=40, deadline=None)
def test_rationals_are_equal_by_value(one: Fraction, other: Fraction) -> None:
    sign = "-" if other < 0 else ""
    answer = rf"{sign}\frac{{{3 * abs(other.numerator)}}}{{{3 * other.denominator}}}"
    assert score(str(one), answer) == float(one == other)


@given(st.integers(), st.integers())
@settings(max_examples=200, deadline=None)
def test_integers_are_equal_exactly(one: int, other: int) -> None:
    assert score(str(one), f"{one:,}") == 1.0
    assert score(str(one), str(other)) == float(one == other)


@given(st.text(max_size=30))
def test_spelling_is_settled_at_once(text: str) -> None:
    assert isinstance(spell(text), str)
    if text.isalnum() and text.isascii():
        assert spell(spell(text)) == spell(text)


@given(st.text(alphabet="a{}\\ ,box", max_size=40), st.text(alphabet="a{}\\ ,", max_size=10))
def test_a_box_at_the_end_is_found_behind_anything(before: str, between: str) -> None:
    found = boxed(f"{before} so {between} that gives \\boxed{{z}}")
    assert found is not None
    assert found.endswith("z")
