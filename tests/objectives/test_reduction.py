import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from posttrain.objectives import reduction
from posttrain.objectives.completions import Completions
from tests.objectives.draws import SEEDS, gradient, log_probs, mask


@given(SEEDS, st.integers(1, 4), st.integers(1, 5))
def test_excluded_tokens_have_no_influence(seed: int, rows: int, tokens: int) -> None:
    values, kept = log_probs(seed, rows, tokens), mask(seed, rows, tokens)
    expected = (values * kept).sum(-1)
    values[~kept] = torch.nan
    assert torch.equal(reduction.row_sums(values, kept), expected)
    found = gradient(lambda at: reduction.row_sums(at, kept).sum(), values)
    assert torch.equal(found, kept.double())


def test_many_small_numbers_in_half_precision_add_up() -> None:
    values = torch.full((1, 1000), -0.01, dtype=torch.bfloat16)
    found = reduction.row_sums(values, torch.ones(1, 1000))
    assert float(found) == pytest.approx(1000 * float(values[0, 0]), rel=1e-5)


def test_a_completion_without_tokens_is_an_error() -> None:
    with pytest.raises(ValueError, match="row 1 has no token that counts"):
        reduction.row_lengths(torch.tensor([[1, 0], [0, 0]]))
    with pytest.raises(ValueError, match="a completion has no token"):
        Completions(torch.zeros(2), torch.zeros(2), torch.tensor([3, 0]))


def test_values_that_would_be_broadcast_are_an_error() -> None:
    with pytest.raises(ValueError, match=r"shapes \[\(2,\), \(2, 1\)\] differ"):
        reduction.same_shape(torch.zeros(2), torch.zeros(2, 1))
    with pytest.raises(ValueError, match="differ"):
        Completions(torch.zeros(2), torch.zeros(1), torch.ones(2))


def test_the_reference_gets_no_gradient() -> None:
    policy, reference = torch.zeros(2, requires_grad=True), torch.zeros(2, requires_grad=True)
    Completions(policy, reference, torch.ones(2)).log_ratio.sum().backward()
    assert policy.grad is not None
    assert reference.grad is None


def test_an_empty_share_is_zero() -> None:
    losses = torch.zeros(0, requires_grad=True)
    found = reduction.share(losses)
    found.backward()
    assert found.item() == 0
