"""Section orders: the answer puts the document together again, and is all that is learned."""

import random
import re
from collections import Counter

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from posttrain.data.longcontext.section_orders import FORMATS, SECTIONS, section_orders, sections
from posttrain.data.longcontext.sources import Document
from tests.data.longcontext import samples
from tests.data.longcontext.samples import chat, diary, document, learned, said


@settings(deadline=None, max_examples=20)
@given(st.integers(0, 2**31), st.sampled_from(["hard", "easy"]))
def test_the_answer_restores_the_document(seed: int, level: str) -> None:
    text = diary(seed, 30)
    row = section_orders(chat(), document(text, level), random.Random(seed))  # type: ignore[arg-type]
    assert not isinstance(row, str)
    (question,), (answer,) = said(row, "user"), said(row, "assistant")
    order = [int(number) for number in re.findall(r"\d+", answer)]
    shown = samples.sections(question)
    assert sorted(order) == list(range(1, SECTIONS[level] + 1))
    assert "".join(shown[number] for number in order) == text
    assert learned(row) == [answer]


@settings(deadline=None, max_examples=40)
@given(st.text(min_size=40), st.integers(2, 8))
def test_sections_are_the_text_in_equal_parts(text: str, count: int) -> None:
    ids = chat().encode(text)
    found = sections(chat(), Document(text, ids, "hard"), count)
    assert found is not None
    assert "".join(found) == text
    lengths = [len(chat().encode(part)) for part in found]
    assert max(lengths) - min(lengths) <= 2 + 2 * 4  # a character has four bytes


def test_orders_are_all_as_likely() -> None:
    seen: Counter[tuple[str, ...]] = Counter()
    source = document(diary(0, 20), "easy")
    for seed in range(480):
        row = section_orders(chat(), source, random.Random(seed))
        assert not isinstance(row, str)
        seen[tuple(re.findall(r"\d", said(row, "assistant")[0]))] += 1
    assert len(seen) == 24
    assert max(seen.values()) < 3 * 480 / 24


def test_ten_formats() -> None:
    assert [written([2, 3, 1]) for _, written in FORMATS] == [
        "2,3,1", "2 3 1", "[2,3,1]", "2 -> 3 -> 1", "2-3-1", "(2)(3)(1)", "2, 3, 1", "2|3|1",
        "2\n3\n1", "Order: 2, 3, 1",
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        (diary(0, 2), "short_sections"),
        ("We walk to the lake. " * 120, "ambiguous"),
        (diary(0, 30) + "[Section 9] is missing.", "ambiguous"),
        (diary(0, 4) + " " * 2000, "ambiguous"),
    ],
)
def test_what_has_no_one_answer_makes_no_row(text: str, reason: str) -> None:
    assert section_orders(chat(), document(text), random.Random(0)) == reason


def test_a_text_that_tokens_do_not_give_back_makes_no_row() -> None:
    source = document(diary(0, 30))
    altered = source._replace(text=source.text.upper())
    assert section_orders(chat(), altered, random.Random(0)) == "altered_text"
