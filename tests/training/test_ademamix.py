import math

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from posttrain.training.ademamix import AdEMAMix, mix_at, slow_decay_at

WARMUP = 100_000
SETTINGS = {"betas": (0.9, 0.999, 0.9999), "alpha": 8.0, "warmup": WARMUP, "epsilon": 1e-8}


@pytest.mark.parametrize(
    ("step", "expected"),
    [
        (1, 0.9009883), (100, 0.9499662), (1_000, 0.9909010), (10_000, 0.9990090),
        (50_000, 0.9998002), (99_999, 0.999900009), (WARMUP, 0.9999),
    ],
)  # fmt: skip
def test_slow_decay_follows_the_half_life(step: int, expected: float) -> None:
    assert slow_decay_at(step, 0.9, 0.9999, WARMUP) == pytest.approx(expected, abs=5e-8)


@pytest.mark.parametrize(
    ("step", "expected"),
    [(1, 8e-5), (100, 0.008), (1_000, 0.08), (10_000, 0.8), (50_000, 4), (WARMUP, 8), (10**6, 8)],
)
def test_mix_grows_linearly_to_alpha(step: int, expected: float) -> None:
    assert mix_at(step, 8.0, WARMUP) == pytest.approx(expected)


@given(step=st.integers(1, 2 * WARMUP), fast=st.floats(0.5, 0.95))
def test_slow_decay_lies_between_fast_and_slow(step: int, fast: float) -> None:
    assert fast - 1e-6 <= slow_decay_at(step, fast, 0.9999, WARMUP) <= 0.9999 + 1e-6


def test_two_steps_by_hand() -> None:
    parameter = torch.nn.Parameter(torch.tensor([1.0], dtype=torch.float64))
    optimizer = AdEMAMix([parameter], lr=0.1, decay=0.01, **SETTINGS)
    theta, fast, slow, square = 1.0, 0.0, 0.0, 0.0
    for step, gradient in enumerate((0.5, -2.0), 1):
        parameter.grad = torch.tensor([gradient], dtype=torch.float64)
        optimizer.step()
        beta3 = slow_decay_at(step, 0.9, 0.9999, WARMUP)
        fast = 0.9 * fast + 0.1 * gradient
        slow = beta3 * slow + (1 - beta3) * gradient
        square = 0.999 * square + 0.001 * gradient**2
        top = fast / (1 - 0.9**step) + 8.0 * step / WARMUP * slow
        bottom = math.sqrt(square) / math.sqrt(1 - 0.999**step) + 1e-8
        theta -= 0.1 * (top / bottom + 0.01 * theta)
        assert parameter.item() == pytest.approx(theta, rel=1e-12)


def test_without_the_slow_average_it_is_adamw() -> None:
    start = torch.randn(4, 3, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    ours, theirs = torch.nn.Parameter(start.clone()), torch.nn.Parameter(start.clone())
    settings = SETTINGS | {"alpha": 0.0}
    ademamix = AdEMAMix([ours], lr=0.01, decay=0.1, **settings)
    adamw = torch.optim.AdamW([theirs], lr=0.01, betas=(0.9, 0.999), eps=1e-8, weight_decay=0.1)
    for _ in range(5):
        for parameter, optimizer in ((ours, ademamix), (theirs, adamw)):
            optimizer.zero_grad()
            (parameter.sin() ** 2).sum().backward()
            optimizer.step()
    torch.testing.assert_close(ours, theirs, rtol=1e-12, atol=1e-12)
