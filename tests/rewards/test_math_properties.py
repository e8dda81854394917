"""What holds of any answer: reading never fails, noise changes nothing, another number does."""

from fractions import Fraction

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rewards.verifiers.math.boxes import boxed
from rewards.verifiers.math.prose import announced
from rewards.verifiers.math.reading import read_answer
from rewards.verifiers.math.spelling import spell
from rewards.verifiers.math.units import split_unit
from tests.rewards.test_math import judged, score

RATIONALS = st.fractions(max_denominator=50).filter(lambda f: abs(f) < 10**6)
SIGNS = "1 0.5 x y n + - * / ^ _ ( ) [ ] { } | , ; : ! % = < . $ ' & √ ² ½ ٣"
COMMANDS = r"\{ \} \\ \frac \sqrt \sin \ln \pi \pm \cup \in \sum \overline \text{m} \text{or}"
PIECES = st.sampled_from(f"{SIGNS} {COMMANDS}".split())
JUNK = st.one_of(st.text(max_size=40), st.lists(PIECES, max_size=14).map(" ".join))
NUMBERS = st.integers(-99, 99).map(lambda n: f"({n})" if n < 0 else str(n))
VALUES = st.recursive(
    NUMBERS | st.sampled_from(["x", "y", r"\pi", "e"]),
    lambda inner: st.one_of(
        st.tuples(inner, inner).map(lambda p: rf"\frac{{{p[0]}}}{{{p[1]}+200}}"),
        st.tuples(inner, inner).map(lambda p: f"({p[0]}+{p[1]})"),
        st.tuples(inner, inner).map(lambda p: rf"({p[0]} \cdot {p[1]})"),
        inner.map(lambda v: rf"\sqrt{{({v})^2+1}}"),
    ),
    max_leaves=5,
)


@given(JUNK, JUNK)
@settings(max_examples=300, deadline=None)
def test_no_answer_makes_a_fault(gold: str, answer: str) -> None:
    verdict = judged(gold, answers=[answer])
    assert verdict.status in ("scored", "abstained")
    assert judged("17", response=answer).status == "scored"


@given(JUNK)
def test_texts_are_read_whatever_they_are(text: str) -> None:
    assert isinstance(spell(text), str)
    assert isinstance(split_unit(spell(text))[0], str)
    assert announced(text) is None or text
    assert read_answer(text) == read_answer(text)


@given(VALUES)
@settings(max_examples=60, deadline=None)
def test_a_value_is_itself_and_not_one_more(value: str) -> None:
    assert score(value, value) == 1.0
    assert score(value, rf"$\left( {value} \right)$") == 1.0
    assert score(value, f"{value} + 1 - 1") == 1.0
    assert score(value, f"{value}+1") == 0.0
    assert score(value, f"2({value})+1000") == 0.0


@given(RATIONALS, RATIONALS)
@settings(max_examples=60, deadline=None)
def test_rationals_are_equal_by_value(one: Fraction, other: Fraction) -> None:
    sign = "-" if other < 0 else ""
    answer = rf"{sign}\frac{{{3 * abs(other.numerator)}}}{{{3 * other.denominator}}}"
    assert score(str(one), answer) == float(one == other)


@given(st.integers(), st.integers())
@settings(max_examples=100, deadline=None)
def test_integers_are_equal_exactly(one: int, other: int) -> None:
    assert score(str(one), f"{one:,}") == 1.0
    assert score(str(one), str(other)) == float(one == other)


@given(st.lists(NUMBERS, min_size=2, max_size=6, unique=True), st.randoms())
@settings(max_examples=40, deadline=None)
def test_lists_have_no_order_and_tuples_have(items: list[str], random: object) -> None:
    shuffled = sorted(items, key=lambda _: random.random())  # type: ignore[attr-defined]
    gold, answer = ", ".join(items), ", ".join(shuffled)
    assert score(gold, answer) == 1.0
    assert score(rf"\{{{gold}\}}", rf"\{{{answer}\}}") == 1.0
    assert score(f"({gold})", f"({answer})") == float(items == shuffled)
    assert score(gold, ", ".join(items[1:])) == 0.0


@given(st.text(alphabet="a1,^_{}\\ ", max_size=12))
def test_spelling_is_settled_at_once_where_nothing_is_marked_up(text: str) -> None:
    if text.isalnum() and text.isascii():
        assert spell(spell(text)) == spell(text)


@given(st.text(alphabet="a{}\\ ,box", max_size=40), st.text(alphabet="a{}\\ ,", max_size=10))
def test_a_box_at_the_end_is_found_behind_anything(before: str, between: str) -> None:
    found = boxed(f"{before} so {between} that gives \\boxed{{z}}")
    assert found is not None
    assert found.endswith("z")


@pytest.mark.parametrize("sign", ["−", "–", "－", "-"])
def test_every_dash_is_a_minus_sign(sign: str) -> None:
    assert score("-5", f"{sign}5") == 1.0
    assert score("5", f"{sign}5") == 0.0
