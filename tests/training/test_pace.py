"""Pace: rates over recent steps, what is left, and MFU where the peak is known."""

from types import SimpleNamespace

import pytest

from posttrain.training import pace
from posttrain.training.pace import Pace, flops_of

CONFIG = SimpleNamespace(
    tie_word_embeddings=True, vocab_size=100, hidden_size=64, num_hidden_layers=3,
    num_attention_heads=4, head_dim=None,
)  # fmt: skip


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """The time, as its last entry."""
    now = [100.0]
    monkeypatch.setattr(pace.time, "monotonic", lambda: now[-1])
    return now


def test_flops_are_palms_by_document() -> None:
    flops = flops_of(CONFIG, parameters=50_000)
    assert flops([10]) == 10 * (6 * 50_000 + 12 * 3 * 4 * 16 * 10)
    assert flops([10, 20]) == flops([10]) + flops([20])


def test_an_input_embedding_of_its_own_does_no_work() -> None:
    apart = SimpleNamespace(**{**vars(CONFIG), "tie_word_embeddings": False})
    assert flops_of(apart, 56_400)([7]) == flops_of(CONFIG, 50_000)([7])


def test_rates_and_what_is_left(clock: list[float]) -> None:
    run = Pace(lambda number: 1e6, peak=4e6)
    run.begin()
    clock.append(101.0)
    run.after(0, 10, {"tokens": 300, "targets": 100})
    clock.append(102.0)
    found = run.after(1, 10, {"tokens": 100, "targets": 40})
    assert found == {
        "tokens_per_second": 200.0, "targets_per_second": 70.0, "mfu": 0.25, "seconds_left": 8.0,
    }  # fmt: skip


def test_without_a_peak_there_is_no_mfu(clock: list[float]) -> None:
    run = Pace(lambda number: 1e6)
    clock.append(101.0)
    assert set(run.after(0, 2, {"loss": 1.0})) == {"seconds_left"}


def test_what_came_before_the_steps_is_not_counted(clock: list[float]) -> None:
    run = Pace()
    clock.append(500.0)
    run.begin()
    clock.append(501.0)
    assert run.after(7, 10, {"tokens": 5})["tokens_per_second"] == 5.0
