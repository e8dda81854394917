import math

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from posttrain.objectives import divergence as ours
from tests.objectives import oracle
from tests.objectives.draws import ALPHAS, SEEDS, gradient, normal

STUDENT = torch.tensor([0.7, 0.2, 0.1], dtype=torch.float64).log()
TEACHER = torch.tensor([0.5, 0.4, 0.1], dtype=torch.float64).log()
SIZES = st.integers(2, 12)


def _pair(seed: int, size: int, scale: float = 2.0) -> tuple[torch.Tensor, torch.Tensor]:
    drawn = normal(seed, 2, 3, size, scale=scale).log_softmax(-1)
    return drawn[0], drawn[1]


@pytest.mark.parametrize(
    ("alpha", "expected"), [(0, 0.1090228), (1, 0.0969011), (0.5, 0.0253623), (0.2, 0.0168821)]
)
def test_vectors_of_the_whole_vocabulary(alpha: float, expected: float) -> None:
    found = ours.divergence(STUDENT, TEACHER, alpha)
    assert float(found) == pytest.approx(expected, abs=1e-7)


@pytest.mark.parametrize(("alpha", "expected"), [(1, 0.0822829), (0, 0.0871767)])
def test_vectors_of_the_students_first_and_the_tail(alpha: float, expected: float) -> None:
    indices = ours.top(STUDENT, 1)
    pair = [ours.on_support(each, indices, tail=True) for each in (STUDENT, TEACHER)]
    assert float(ours.divergence(*pair, alpha)) == pytest.approx(expected, abs=1e-7)
    kept = [ours.with_tail(each.gather(-1, indices)) for each in (STUDENT, TEACHER)]
    assert float(ours.divergence(*kept, alpha)) == pytest.approx(expected, abs=1e-7)


@settings(deadline=None)
@given(SEEDS, SIZES, st.one_of(ALPHAS, st.sampled_from([0.0, 1.0])))
def test_values_and_gradients_are_the_plain_formulas(seed: int, size: int, alpha: float) -> None:
    logits, teacher = normal(seed, 2, 3, size)
    q = oracle.softmax(teacher)

    def mine(at: torch.Tensor) -> torch.Tensor:
        return ours.divergence(at.log_softmax(-1), teacher.log_softmax(-1), alpha).sum()

    def plain(at: torch.Tensor) -> torch.Tensor:
        return oracle.divergence(oracle.softmax(at), q, alpha).sum()

    assert torch.allclose(mine(logits), plain(logits), rtol=1e-9, atol=1e-12)
    assert torch.allclose(gradient(mine, logits), gradient(plain, logits), rtol=1e-8, atol=1e-11)


@pytest.mark.parametrize("alpha", [0.0, 0.3, 1.0])
@pytest.mark.parametrize("tail", [True, False])
def test_gradients_are_those_of_finite_differences(alpha: float, tail: bool) -> None:
    logits, teacher = normal(7, 2, 2, 6)
    indices = ours.top(logits, 3)

    def value(at: torch.Tensor) -> torch.Tensor:
        theirs = ours.on_support(teacher, indices, tail)
        return ours.divergence(ours.on_support(at, indices, tail), theirs, alpha)

    assert torch.autograd.gradcheck(value, logits.requires_grad_())


@given(SEEDS, SIZES, ALPHAS)
def test_jsd_is_symmetric_when_its_weights_are_swapped(seed: int, size: int, alpha: float) -> None:
    student, teacher = _pair(seed, size)
    swapped = ours.divergence(teacher, student, 1 - alpha)
    assert torch.allclose(ours.divergence(student, teacher, alpha), swapped, atol=1e-12)


@given(SEEDS, SIZES, ALPHAS, st.floats(0.1, 30))
def test_jsd_is_at_most_the_entropy_of_its_weights(
    seed: int, size: int, alpha: float, scale: float
) -> None:
    entropy = -alpha * math.log(alpha) - (1 - alpha) * math.log(1 - alpha)
    found = ours.divergence(*_pair(seed, size, scale), alpha)
    assert bool((found >= -1e-12).all())
    assert bool((found <= entropy + 1e-12).all())


@given(SEEDS, SIZES, st.sampled_from([0.0, 0.3, 1.0]))
def test_nothing_diverges_from_itself(seed: int, size: int, alpha: float) -> None:
    student, _ = _pair(seed, size)
    assert torch.allclose(ours.divergence(student, student, alpha), torch.zeros(3).double())


@given(SEEDS, SIZES)
def test_the_ends_are_the_slopes_of_jsd_and_not_its_limits(seed: int, size: int) -> None:
    student, teacher = _pair(seed, size, scale=1.0)
    near = 1e-7
    for alpha, end in ((near, 0), (1 - near, 1)):
        jsd = ours.divergence(student, teacher, alpha)
        kl = ours.divergence(student, teacher, end)
        assert torch.allclose(jsd, torch.zeros_like(jsd), atol=1e-4)
        assert torch.allclose(jsd / near, kl, rtol=1e-3, atol=1e-5)


@given(SEEDS, SIZES, st.sampled_from([0.0, 0.3, 1.0]))
def test_all_tokens_as_top_k_are_the_whole_vocabulary(seed: int, size: int, alpha: float) -> None:
    student, teacher = normal(seed, 2, 3, size)
    indices = ours.top(student, size)
    whole = ours.divergence(student.log_softmax(-1), teacher.log_softmax(-1), alpha)
    for tail in (True, False):
        pair = (ours.on_support(each, indices, tail) for each in (student, teacher))
        assert torch.allclose(ours.divergence(*pair, alpha), whole, atol=1e-12)


@given(SEEDS, SIZES, st.sampled_from([0.0, 0.3, 1.0]))
def test_more_tokens_never_show_less_divergence(seed: int, size: int, alpha: float) -> None:
    student, teacher = normal(seed, 2, 3, size)
    seen = torch.zeros(3, dtype=torch.float64)
    for k in range(1, size + 1):
        indices = ours.top(student, k)
        pair = (ours.on_support(each, indices, tail=True) for each in (student, teacher))
        found = ours.divergence(*pair, alpha)
        assert bool((found >= seen - 1e-12).all())
        seen = found


@given(SEEDS, SIZES, st.booleans())
def test_outcomes_on_a_support_are_a_distribution(seed: int, size: int, tail: bool) -> None:
    logits, _ = normal(seed, 2, 3, size)
    found = ours.on_support(logits, ours.top(logits, max(1, size // 2)), tail)
    assert torch.allclose(found.exp().sum(-1), torch.ones(3).double(), atol=1e-12)


@given(SEEDS, SIZES)
def test_a_constant_on_the_logits_changes_nothing(seed: int, size: int) -> None:
    logits, _ = normal(seed, 2, 3, size)
    indices = ours.top(logits, 1)
    moved = ours.on_support(logits + 40, indices, tail=True)
    assert torch.allclose(moved, ours.on_support(logits, indices, tail=True), atol=1e-10)


@pytest.mark.parametrize("certainty", [0.0, 10.0, 17.0, 23.0, 40.0])
@pytest.mark.parametrize("alpha", [0.0, 0.5, 1.0])
def test_a_certain_students_tail_keeps_its_gradient_in_float32(
    certainty: float, alpha: float
) -> None:
    """As 1 - sum(p) the forward KL's gradient was off by up to 0.9 here."""
    student, teacher = normal(3, 2, 20, 200, scale=1.0)
    student[:, :3] += certainty
    indices = ours.top(student, 3)

    def value(at: torch.Tensor) -> torch.Tensor:
        theirs = ours.on_support(teacher.to(at.dtype), indices, tail=True)
        return ours.divergence(ours.on_support(at, indices, tail=True), theirs, alpha).mean()

    exact = gradient(value, student)
    assert torch.allclose(gradient(value, student.float()).double(), exact, atol=1e-6)


def test_tokens_that_nobody_can_say_count_nothing() -> None:
    logits, teacher = normal(5, 2, 3, 6)
    never = torch.tensor([False, False, False, False, True, True])
    padded, taught = (each.masked_fill(never, -torch.inf) for each in (logits, teacher))
    for alpha in (0.0, 0.5, 1.0):
        for k in (2, 4, 6):
            indices = ours.top(padded, k)

            def value(
                at: torch.Tensor, alpha: float = alpha, indices: torch.Tensor = indices
            ) -> torch.Tensor:
                pair = (ours.on_support(each, indices, tail=True) for each in (at, taught))
                return ours.divergence(*pair, alpha).sum()

            short = ours.divergence(
                logits[:, :4].log_softmax(-1), teacher[:, :4].log_softmax(-1), alpha
            )
            assert float(value(padded)) <= float(short.sum()) + 1e-12
            assert bool(gradient(value, padded).isfinite().all())
            if k > 2:
                assert float(value(padded)) == pytest.approx(float(short.sum()))


@given(st.floats(-700, -1e-7))
def test_log1mexp_is_exact(value: float) -> None:
    import mpmath

    with mpmath.workdps(60):
        exact = float(mpmath.log(1 - mpmath.exp(mpmath.mpf(value))))
    found = float(ours.log1mexp(torch.tensor(value, dtype=torch.float64)))
    assert found == pytest.approx(exact, rel=1e-13)


def test_with_tail_leaves_something_for_the_tail() -> None:
    found = ours.with_tail(torch.tensor([0.0, -30.0]))
    assert float(found[-1]) == pytest.approx(math.log(1e-7), abs=1e-3)


def test_half_precision_is_computed_in_float32() -> None:
    student, teacher = (each.bfloat16() for each in _pair(1, 8))
    found = ours.divergence(student, teacher, 0.5)
    assert found.dtype == torch.float32
    assert torch.equal(found, ours.divergence(student.float(), teacher.float(), 0.5))


def test_more_tokens_than_there_are_is_an_error() -> None:
    with pytest.raises(ValueError, match="top_k 4 of a vocabulary of 3: choose at most 3"):
        ours.top(STUDENT, 4)


def test_different_outcomes_are_an_error() -> None:
    with pytest.raises(ValueError, match="differ"):
        ours.kl(STUDENT, TEACHER[:1])
