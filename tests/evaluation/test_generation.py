"""Sampling against the plainest loop: no cache, no padding, one prompt at a time."""

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from transformers import ApertusForCausalLM

from posttrain.evaluation import generation
from posttrain.evaluation.generation import sample
from tests.evaluation.tiny_model import model

MODEL = model(40)
PROMPTS = st.lists(st.lists(st.integers(4, 39), min_size=1, max_size=9), min_size=1, max_size=6)


@torch.no_grad()
def likeliest(
    model: ApertusForCausalLM, prompt: list[int], limit: int, stops: set[int]
) -> list[int]:
    response: list[int] = []
    while len(response) < limit and not stops & set(response):
        logits = model(torch.tensor([prompt + response])).logits[0, -1]
        response.append(int(logits.argmax()))
    return response


@settings(deadline=None, max_examples=15)
@given(
    PROMPTS, st.integers(1, 4), st.integers(1, 40),
    st.sets(st.integers(0, 39), min_size=1, max_size=20),
)  # fmt: skip
def test_batches_say_what_each_prompt_alone_would(
    prompts: list[list[int]], batch_size: int, batch_tokens: int, stops: set[int]
) -> None:
    found = sample(
        MODEL, prompts, max_new_tokens=6, temperature=0, stop_ids=sorted(stops), seed=0,
        batch_size=batch_size, batch_tokens=batch_tokens,
    )  # fmt: skip
    assert found == [likeliest(MODEL, prompt, 6, stops) for prompt in prompts]


def test_a_batch_holds_at_most_its_tokens(monkeypatch: pytest.MonkeyPatch) -> None:
    sizes: list[list[int]] = []

    def respond(model: object, prompts: list[list[int]], *rest: object) -> list[list[int]]:
        sizes.append([len(prompt) for prompt in prompts])
        return [[7] for _ in prompts]

    monkeypatch.setattr(generation, "_respond", respond)
    prompts = [[5] * length for length in (90, 10, 20, 10, 30, 30)]
    found = sample(
        MODEL, prompts, max_new_tokens=1, temperature=0, stop_ids=[7], seed=0, batch_size=3,
        batch_tokens=60,
    )  # fmt: skip
    assert sizes == [[10, 10, 20], [30, 30], [90]]
    assert found == [[7]] * 6


@settings(deadline=None, max_examples=15)
@given(PROMPTS, st.integers(0, 2**31))
def test_sampling_repeats_with_its_seed_and_stops(prompts: list[list[int]], seed: int) -> None:
    runs = [
        sample(MODEL, prompts, max_new_tokens=5, temperature=1.0, stop_ids=[7, 9], seed=seed)
        for _ in range(2)
    ]
    assert runs[0] == runs[1]
    for response in runs[0]:
        assert 1 <= len(response) <= 5
        assert not {7, 9} & set(response[:-1])
        assert len(response) == 5 or response[-1] in {7, 9}


def test_samples_follow_the_distribution() -> None:
    prompt = [5, 6, 7]
    drawn = sample(
        MODEL, [prompt] * 4000, max_new_tokens=1, temperature=2.0, stop_ids=[], seed=1,
        batch_size=4000,
    )  # fmt: skip
    with torch.no_grad():
        expected = (MODEL(torch.tensor([prompt])).logits[0, -1] / 2.0).softmax(-1)
    found = torch.bincount(torch.tensor(drawn)[:, 0], minlength=40) / 4000
    assert (found - expected).abs().max() < 0.04


def test_the_mode_is_left_as_it_was() -> None:
    MODEL.train()
    sample(MODEL, [[5]], max_new_tokens=1, temperature=0, stop_ids=[], seed=0)
    assert MODEL.training
    MODEL.eval()
    sample(MODEL, [[5]], max_new_tokens=1, temperature=0, stop_ids=[], seed=0)
    assert not MODEL.training
