"""Memorisation: a text that was learned by heart is told from one that never was."""

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from posttrain.data import tiny
from posttrain.data.documents import render_document
from posttrain.evaluation.generation import sample
from posttrain.evaluation.memorisation import (
    evaluate,
    longest_subsequence,
    longest_substring,
    rouge_l,
    type_token_ratio,
)
from posttrain.evaluation.prompts import PromptScores
from posttrain.evaluation.suites import Memorisation
from tests.evaluation.tiny_model import chat_format, model

CHAT = chat_format()
SUITE = Memorisation(kind="memorisation", data="corpus.train", prefix=4, suffix=6)
ROWS = [
    row
    for row in tiny.chains(0, 60)
    if len(render_document(CHAT, row).ids) >= 10  # type: ignore[arg-type]
]

numbers = st.lists(st.integers(0, 3), max_size=12)


def test_by_hand() -> None:
    assert longest_subsequence([1, 2, 3, 4], [1, 9, 3, 4]) == 3
    assert longest_substring([1, 2, 3, 4], [1, 9, 3, 4]) == 2
    assert rouge_l([1, 2, 3, 4], [1, 9, 3, 4]) == 0.75
    assert rouge_l([], []) == 0.0
    assert type_token_ratio([1, 1, 2, 2]) == 0.5


@given(numbers, numbers)
def test_a_substring_is_a_subsequence_and_both_are_symmetric(
    one: list[int], other: list[int]
) -> None:
    whole, piece = longest_subsequence(one, other), longest_substring(one, other)
    assert 0 <= piece <= whole <= min(len(one), len(other))
    assert (whole, piece) == (longest_subsequence(other, one), longest_substring(other, one))
    assert longest_substring(one, one) == len(one)


def test_what_was_learned_by_heart_is_recalled() -> None:
    taught, fresh = ROWS[:2], ROWS[2:6]
    pupil = model(len(CHAT.tokenizer))
    ids = [torch.tensor([render_document(CHAT, row).ids]) for row in taught]  # type: ignore[arg-type]
    optimizer = torch.optim.AdamW(pupil.parameters(), lr=5e-3)
    for _ in range(60):
        for each in ids:
            pupil(each, labels=each).loss.backward()
        optimizer.step()
        optimizer.zero_grad()
    kept: list[PromptScores] = []
    recalled = evaluate(pupil, CHAT, SUITE, taught, seed=0, keep=kept.append)
    unknown = evaluate(pupil, CHAT, SUITE, fresh, seed=0)
    assert recalled["greedy.exact"] == recalled["greedy.rouge_l"] == 1.0
    assert recalled["greedy.longest_substring"] == 6.0
    assert recalled["accuracy"] == 0.0
    assert unknown["greedy.rouge_l"] < 1.0
    assert kept[0].attempts == [[0.0], [0.0]]


def test_documents_that_are_too_short_are_refused() -> None:
    long = SUITE.model_copy(update={"prefix": 5000})
    with pytest.raises(ValueError, match="has 0 documents of 5006 tokens"):
        evaluate(model(len(CHAT.tokenizer)), CHAT, long, ROWS, seed=0)


def test_the_nucleus_keeps_the_likeliest_tokens_only() -> None:
    net = model(len(CHAT.tokenizer))
    prompts = [render_document(CHAT, row).ids[:4] for row in ROWS[:3]]  # type: ignore[arg-type]
    settings = {"max_new_tokens": 5, "stop_ids": [CHAT.eos], "seed": 1}
    greedy = sample(net, prompts, temperature=0.0, **settings)  # type: ignore[arg-type]
    assert sample(net, prompts, temperature=1.0, top_p=1e-9, **settings) == greedy  # type: ignore[arg-type]
    free = sample(net, prompts, temperature=1.0, **settings)  # type: ignore[arg-type]
    assert free == sample(net, prompts, temperature=1.0, top_p=1.0, **settings)  # type: ignore[arg-type]
    assert free != greedy
