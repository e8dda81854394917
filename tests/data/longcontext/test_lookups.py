"""Lookups: one dictionary has the key, its place is biased as stated, and lengths spread."""

import random
import re
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic import ValidationError

from posttrain.data.longcontext.dictionaries import Lookups, gold_index, lookups
from posttrain.data.tiny import held_out
from tests.data.longcontext.samples import chat, learned, said

ASKED = Lookups(tokenizer="t", rows=1, target=1024, dictionaries=6)
ANSWER = re.compile(r"The key (\d+) has the value (\d+) in dictionary (\d+)\.")


def read(row: dict[str, Any]) -> tuple[list[dict[int, int]], tuple[int, int, int]]:
    """The dictionaries of a row, in order, and what it answers."""
    (question,), (answer,) = said(row, "user"), said(row, "assistant")
    numbered = re.findall(r"^Dictionary (\d+): \{(.+)\}$", question, re.MULTILINE)
    assert [int(number) for number, _ in numbered] == list(range(1, len(numbered) + 1))
    found = [
        {int(key): int(value) for key, value in re.findall(r"(\d+): (\d+)", entries)}
        for _, entries in numbered
    ]
    key, value, number = map(int, ANSWER.fullmatch(answer).groups())  # type: ignore[union-attr]
    return found, (key, value, number)


@settings(deadline=None, max_examples=20)
@given(st.integers(0, 2**31), st.booleans())
def test_the_answer_is_the_only_one(seed: int, holdout: bool) -> None:
    rows, _ = lookups(chat(), ASKED, 2, seed, holdout=holdout)
    for row in rows:
        found, (key, value, number) = read(row)
        assert [at for at, entries in enumerate(found, 1) if key in entries] == [number]
        assert [at for at, entries in enumerate(found, 1) if value in entries.values()] == [number]
        assert found[number - 1][key] == value
        assert len(found[number - 1]) == 3
        assert {len(entries) for entries in found} <= {3, 4}
        assert all(100 <= n <= 9999 for entries in found for pair in entries.items() for n in pair)
        assert len(found) >= ASKED.dictionaries
        assert held_out(f"{key} {value}") == holdout
        assert learned(row) == said(row, "assistant")


@settings(deadline=None, max_examples=10)
@given(st.integers(0, 2**31), st.sampled_from([1024, 2048, 4096]))
def test_rows_stay_within_their_window(seed: int, target: int) -> None:
    asked = ASKED.model_copy(update={"target": target})
    rows, _ = lookups(chat(), asked, 3, seed)
    for row in rows:
        assert row["length"] == len(chat().render(row).ids) <= target  # type: ignore[arg-type]
        assert row["length"] >= target // 4 - 100
    assert rows == lookups(chat(), asked, 3, seed)[0]


def test_lengths_spread_over_the_window_and_places_over_the_list() -> None:
    # Where a list only just passes the shortest length, or its first 85 places are drawn from, a
    # model is never taught to look further.
    rows, _ = lookups(chat(), ASKED.model_copy(update={"target": 4096}), 60, 3)
    lengths = [row["length"] for row in rows]
    assert min(lengths) < 1700 < 3400 < max(lengths)
    parts = [number / len(found) for found, (_, _, number) in map(read, rows)]
    assert min(parts) < 0.1 < 0.9 < max(parts)


def test_the_place_is_biased_towards_the_start() -> None:
    draw = random.Random(0)
    found = [gold_index(draw, 1000) for _ in range(20_000)]
    assert 0.045 < sum(index == 0 for index in found) / 20_000 < 0.057  # 5 % and 1 in 1,000
    early = sum(index < 50 for index in found) / 20_000
    assert 0.115 < early < 0.137  # 5 %, 3 % and a twentieth of the rest
    rest = [index for index in found if index >= 50]
    assert 510 < sum(rest) / len(rest) < 540


@given(st.integers(0, 2**31), st.integers(1, 500))
def test_a_place_is_within_the_list(seed: int, count: int) -> None:
    assert 0 <= gold_index(random.Random(seed), count) < count


def test_what_does_not_fit_is_refused() -> None:
    with pytest.raises(ValueError, match=r"85 dictionaries have \d+ tokens, target is 256; lower"):
        lookups(chat(), Lookups(tokenizer="t", rows=1, target=256), 1, 0)
    with pytest.raises(ValidationError, match="least 300 exceeds target 256"):
        Lookups(tokenizer="t", rows=1, target=256, least=300)


def test_a_list_may_be_as_short_as_its_fewest_dictionaries() -> None:
    asked = ASKED.model_copy(update={"least": 1, "target": 700})
    rows, figures = lookups(chat(), asked, 10, 0)
    assert min(len(read(row)[0]) for row in rows) == 6
    assert figures["targets"] == sum(
        len(chat().encode(said(row, "assistant")[0])) + 1 for row in rows
    )
    assert figures["target_share"] == figures["targets"] / figures["tokens"]
