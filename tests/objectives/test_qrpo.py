import math

import mpmath
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from posttrain.objectives import qrpo
from posttrain.objectives.completions import Completions
from posttrain.objectives.config import QRPOConfig
from tests.objectives import oracle
from tests.objectives.draws import SEEDS, gradient, log_probs, mask

BETAS = st.floats(0.005, 50)


@pytest.mark.parametrize(
    ("beta", "expected"), [(0.03, 0.8948033), (0.1, 0.7697370), (1, 0.5413249)]
)
def test_vectors_of_log_z(beta: float, expected: float) -> None:
    for dtype in (torch.float32, torch.float64):
        found = qrpo.beta_log_z(torch.tensor(beta, dtype=dtype))
        assert float(found) == pytest.approx(expected, abs=1e-6 if dtype == torch.float32 else 6e-8)


@given(BETAS)
def test_log_z_is_exact(beta: float) -> None:
    with mpmath.workdps(120):
        exact = float(beta * mpmath.log(beta * (mpmath.exp(1 / mpmath.mpf(beta)) - 1)))
    found = qrpo.beta_log_z(torch.tensor(beta, dtype=torch.float64))
    assert float(found) == pytest.approx(exact, rel=1e-13)
    single = qrpo.beta_log_z(torch.tensor(beta, dtype=torch.float32))
    assert float(single) == pytest.approx(exact, rel=1e-5)


@given(BETAS)
def test_z_makes_the_optimal_policy_a_distribution(beta: float) -> None:
    """pi / pi_ref = exp(R / beta) / Z averages to 1 for R uniform on [0, 1]."""
    log_z = float(qrpo.beta_log_z(torch.tensor(beta, dtype=torch.float64)))
    with mpmath.workdps(30):
        mean = mpmath.quad(
            lambda reward: mpmath.exp((reward - log_z) / beta), mpmath.linspace(0, 1, 9)
        )
    assert float(mean) == pytest.approx(1, rel=1e-9)


@given(SEEDS, st.integers(1, 4), st.integers(1, 6))
def test_quantiles_count_references_that_are_no_better(seed: int, rows: int, n: int) -> None:
    drawn = log_probs(seed, rows, n + 1).round()
    found = qrpo.quantiles(drawn[:, 0], drawn[:, 1:])
    expected = [oracle.quantile(row[0], row[1:]) for row in drawn.tolist()]
    assert found.tolist() == pytest.approx(expected)


@given(SEEDS, st.integers(1, 4), st.integers(1, 6))
def test_quantiles_see_only_the_order_of_rewards(seed: int, rows: int, n: int) -> None:
    drawn = log_probs(seed, rows, n + 1)
    found = qrpo.quantiles(drawn[:, 0], drawn[:, 1:])
    assert torch.equal(qrpo.quantiles((3 * drawn[:, 0]).exp(), (3 * drawn[:, 1:]).exp()), found)
    assert torch.equal(qrpo.quantiles(drawn[:, 0], drawn[:, 1:].flip(-1)), found)


@pytest.mark.parametrize("bad", [math.nan, math.inf])
def test_a_reward_that_is_missing_is_an_error(bad: float) -> None:
    """NaN compares as false, which would be the worst quantile."""
    with pytest.raises(ValueError, match="a reward is not finite"):
        qrpo.quantiles(torch.tensor([bad]), torch.zeros(1, 3))
    with pytest.raises(ValueError, match="a reward is not finite"):
        qrpo.quantiles(torch.zeros(1), torch.tensor([[0.0, bad]]))


def test_no_references_are_an_error() -> None:
    with pytest.raises(ValueError, match="differ"):
        qrpo.quantiles(torch.zeros(2), torch.zeros(2, 0))


def test_beta_is_normalised_by_length_up_to_its_cap() -> None:
    found = qrpo.betas(torch.tensor([10, 50, 100, 167]), QRPOConfig(beta=5))
    assert found.tolist() == pytest.approx([0.1, 0.1, 0.05, 5 / 167])
    plain = QRPOConfig(beta=0.03, length_normalized=False)
    assert qrpo.betas(torch.tensor([10, 500]), plain).tolist() == pytest.approx([0.03, 0.03])


class Rows:
    """Three completions of up to four tokens with quantiles."""

    def __init__(self, seed: int) -> None:
        self.policy, self.reference = log_probs(seed, 2, 3, 4)
        self.mask = mask(seed, 3, 4)
        self.quantile = log_probs(seed, 3).exp()

    def regressed(self, config: QRPOConfig, policy: torch.Tensor | None = None) -> qrpo.Regressed:
        policy = self.policy if policy is None else policy
        completions = Completions.summed(policy, self.reference, self.mask)
        return qrpo.regress(completions, self.quantile, config)

    def plain(self, config: QRPOConfig, policy: torch.Tensor) -> torch.Tensor:
        lengths = self.mask.sum(-1).double()
        beta = torch.full((3,), config.beta, dtype=torch.float64)
        if config.length_normalized:
            beta = torch.minimum(beta / lengths, torch.tensor(config.cap, dtype=torch.float64))
        ratio = torch.where(self.mask, policy - self.reference, 0).sum(-1)
        return oracle.qrpo(ratio, self.quantile, beta)


@settings(deadline=None)
@given(SEEDS, st.floats(0.01, 3), st.booleans(), st.sampled_from([0.1, 5.0]))
def test_values_and_gradients_are_the_plain_formula(
    seed: int, beta: float, normalized: bool, cap: float
) -> None:
    config = QRPOConfig(
        beta=beta if normalized else min(beta, cap), length_normalized=normalized, cap=cap
    )
    rows = Rows(seed)
    assert torch.allclose(rows.regressed(config).loss, rows.plain(config, rows.policy), rtol=1e-9)
    ours = gradient(lambda at: rows.regressed(config, at).loss.sum(), rows.policy)
    expected = gradient(lambda at: rows.plain(config, at).sum(), rows.policy)
    assert torch.allclose(ours, expected, rtol=1e-8, atol=1e-11)


def test_gradients_are_those_of_finite_differences() -> None:
    rows, config = Rows(9), QRPOConfig(beta=0.3)
    policy = rows.policy.requires_grad_()
    assert torch.autograd.gradcheck(lambda at: rows.regressed(config, at).loss, policy)


@given(SEEDS)
def test_what_the_mask_excludes_changes_nothing(seed: int) -> None:
    rows, config = Rows(seed), QRPOConfig(beta=0.3)
    before = rows.regressed(config).loss
    rows.policy[~rows.mask], rows.reference[~rows.mask] = torch.nan, torch.inf
    assert torch.equal(rows.regressed(config).loss, before)
    found = gradient(lambda at: rows.regressed(config, at).loss.sum(), rows.policy)
    assert bool(found.isfinite().all())
    assert bool((found[~rows.mask] == 0).all())


@given(BETAS, st.floats(0, 1))
def test_the_optimal_policy_loses_nothing(beta: float, quantile: float) -> None:
    config = QRPOConfig(beta=beta, length_normalized=False, cap=100)
    log_z = float(mpmath.log(beta * (mpmath.exp(1 / mpmath.mpf(beta)) - 1)))
    ratio = torch.tensor([quantile / beta - log_z], dtype=torch.float64)
    optimal = Completions(ratio, torch.zeros_like(ratio), torch.ones(1))
    target = torch.tensor([quantile], dtype=torch.float64)
    assert float(qrpo.regress(optimal, target, config).mean()) == pytest.approx(0, abs=1e-9)


def test_metrics_are_means_over_completions() -> None:
    rows, config = Rows(1), QRPOConfig(beta=0.3)
    found = rows.regressed(config)
    expected = float((found.target - found.reward).square().mean())
    assert found.metrics()["loss"] == pytest.approx(expected)
    assert float(found.mean(rows=6)) == pytest.approx(expected / 2)
