"""Degeneration is counted as facts.md section 7.2 says, and on what a model truly generated."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from posttrain.data import tiny
from posttrain.evaluation.degeneration import (
    CHUNK,
    LENGTHS,
    degenerate,
    evaluate,
    longest_repeat,
    repetition,
)
from posttrain.evaluation.prompts import PromptScores
from posttrain.evaluation.suites import Degeneration
from tests.evaluation.tiny_model import chat_format, model

CHAT = chat_format()
MODEL = model(len(CHAT.tokenizer))


def words(count: int) -> str:
    return " ".join(f"w{n}" for n in range(count))


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("", False),
        ("so " * 5, False),  # 1 - 1/5 is not above 0.8.
        ("so " * 6, True),
        ("So so SO sO so\nso", True),  # Case and kind of space are no difference.
        (words(5000), False),
        (words(1024) + " " + "so " * 6, True),  # The second chunk by itself.
        (words(1020) + " " + "so " * 6, False),  # Four and two: neither chunk has six of them.
        ("a b c " * 100, True),
        (f"{words(50)} " * 6, True),
        (f"{words(100)} " * 5, False),  # The longest n-gram tells nothing new in 500 words.
    ],
)
def test_what_is_degenerate(text: str, told: bool) -> None:
    assert degenerate(text) is told


@given(st.lists(st.sampled_from("abc"), max_size=60), st.sampled_from(LENGTHS))
def test_repetition_is_one_minus_the_share_of_distinct_grams(items: list[str], length: int) -> None:
    grams = [tuple(items[at : at + length]) for at in range(len(items) - length + 1)]
    expected = 1 - len(set(grams)) / len(grams) if grams else 0.0
    assert repetition(items, length) == expected


@given(st.lists(st.sampled_from("ab"), max_size=30))
def test_the_longest_repeat_is_found(items: list[str]) -> None:
    def twice(length: int) -> bool:
        runs = [tuple(items[at : at + length]) for at in range(len(items) - length + 1)]
        return len(set(runs)) < len(runs)

    found = longest_repeat(items)
    assert found == max((n for n in range(1, len(items)) if twice(n)), default=0)


def test_chunks_are_of_1024_words() -> None:
    assert CHUNK == 1024


def test_a_model_is_measured() -> None:
    suite = Degeneration(
        kind="degeneration", data="p.holdout", attempts=2, temperature=1.0, max_new_tokens=24
    )
    kept: list[PromptScores] = []
    rows = tiny.prompts(0, 3, 1.0, holdout=True)
    found = evaluate(MODEL, CHAT, suite, rows, seed=1, keep=kept.append)
    assert found["n"] == 6
    assert found["accuracy"] + found["degenerate"] == pytest.approx(1)
    assert [len(attempts) for attempts in kept[0].attempts] == [2, 2, 2]
    assert found == evaluate(MODEL, CHAT, suite, rows, seed=1)
