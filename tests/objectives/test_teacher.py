import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from posttrain.objectives import teacher
from tests.objectives.draws import SEEDS, normal

RATES = st.floats(0, 1)


@given(SEEDS, RATES)
def test_both_lie_between_teacher_and_student(seed: int, rate: float) -> None:
    old, new = normal(seed, 2, 3, 4)
    expected = (1 - rate) * old + rate * new
    assert torch.allclose(teacher.ema(old, new, rate), expected, atol=1e-12)
    assert torch.allclose(teacher.trust_region(old, new, rate), expected, atol=1e-12)


@given(SEEDS, RATES, RATES)
def test_two_averages_of_a_student_at_rest_are_one(seed: int, first: float, then: float) -> None:
    old, new = normal(seed, 2, 3)
    twice = teacher.ema(teacher.ema(old, new, first), new, then)
    assert torch.allclose(twice, teacher.ema(old, new, 1 - (1 - first) * (1 - then)), atol=1e-12)


def test_the_ends_are_exact() -> None:
    old, new = normal(0, 2, 5).float()
    for follow in (teacher.ema, teacher.trust_region):
        assert torch.equal(follow(old, new, 0.0), old)
        assert torch.equal(follow(old, new, 1.0), new)


def test_the_average_ignores_the_students_precision() -> None:
    old, new = torch.zeros(2), torch.ones(2, dtype=torch.bfloat16)
    found = teacher.ema(old, new, 0.001)
    assert found.dtype == torch.float32
    assert found.tolist() == pytest.approx([0.001, 0.001])


def test_an_average_that_would_stand_still_is_an_error() -> None:
    half = torch.ones(2, dtype=torch.bfloat16)
    assert torch.equal(torch.lerp(half, half * 1.01, 0.05), half)
    with pytest.raises(ValueError, match="stands still: keep it in float32"):
        teacher.ema(half, half, 0.05)


def test_neither_has_a_gradient() -> None:
    old, new = (torch.ones(2, requires_grad=True) for _ in range(2))
    assert not teacher.ema(old, new, 0.5).requires_grad
    assert not teacher.trust_region(old, new, 0.5).requires_grad


def test_different_vocabularies_are_an_error() -> None:
    with pytest.raises(ValueError, match="differ"):
        teacher.trust_region(torch.zeros(2, 3), torch.zeros(2, 4), 0.5)
