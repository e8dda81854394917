import math

import pytest
import torch
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from posttrain.objectives import dpo
from posttrain.objectives.completions import Completions
from posttrain.objectives.config import DPOConfig
from tests.objectives import oracle
from tests.objectives.draws import SEEDS, gradient, log_probs, mask

CONFIGS = st.builds(
    DPOConfig,
    beta=st.floats(0.01, 30),
    length_normalized=st.booleans(),
    label_smoothing=st.sampled_from([0.0, 0.1]),
)

# Beyond it the plain formula's gradient loses digits: it divides by the square of e^margin.
PLAIN_HOLDS = 300


class Pairs:
    """Two pairs of up to four tokens: rows are the chosen completions, then the rejected."""

    def __init__(self, seed: int) -> None:
        self.policy, self.reference = log_probs(seed, 2, 4, 4)
        self.mask = mask(seed, 4, 4)

    def sides(self, policy: torch.Tensor | None = None) -> tuple[Completions, Completions]:
        policy = self.policy if policy is None else policy
        chosen, rejected = (
            Completions.summed(policy[part], self.reference[part], self.mask[part])
            for part in (slice(2), slice(2, 4))
        )
        return chosen, rejected

    def loss(self, config: DPOConfig, policy: torch.Tensor | None = None) -> torch.Tensor:
        return dpo.prefer(*self.sides(policy), config).loss

    def plain(self, config: DPOConfig, policy: torch.Tensor) -> torch.Tensor:
        return oracle.dpo(
            policy, self.reference, self.mask, beta=config.beta,
            normalized=config.length_normalized, smoothing=config.label_smoothing,
        )  # fmt: skip


def _side(log_ratio: float, tokens: int = 1) -> Completions:
    ratio = torch.tensor([log_ratio], dtype=torch.float64)
    return Completions(ratio, torch.zeros_like(ratio), torch.tensor([tokens]))


def test_vector() -> None:
    found = dpo.prefer(_side(2.0), _side(-1.0), DPOConfig(beta=0.1))
    assert float(found.mean()) == pytest.approx(0.5543552, abs=1e-7)


def test_length_normalisation_is_each_sides_own() -> None:
    config = DPOConfig(beta=25, length_normalized=True)
    found = dpo.prefer(_side(2.0, tokens=100), _side(-1.0, tokens=20), config)
    assert float(found.chosen) == pytest.approx(0.5)
    assert float(found.rejected) == pytest.approx(-1.25)
    assert float(found.loss) == pytest.approx(math.log1p(math.exp(-1.75)))


@settings(deadline=None)
@given(SEEDS, CONFIGS)
def test_values_and_gradients_are_the_plain_formula(seed: int, config: DPOConfig) -> None:
    pairs = Pairs(seed)
    margin = dpo.prefer(*pairs.sides(), config).margin
    assume(float(margin.abs().max()) < PLAIN_HOLDS)
    plain = pairs.plain(config, pairs.policy)
    assert torch.allclose(pairs.loss(config), plain, rtol=1e-8, atol=1e-11)
    ours = gradient(lambda at: pairs.loss(config, at).sum(), pairs.policy)
    expected = gradient(lambda at: pairs.plain(config, at).sum(), pairs.policy)
    assert torch.allclose(ours, expected, rtol=1e-7, atol=1e-10)


def test_gradients_are_exact_where_the_plain_formula_loses_digits() -> None:
    pairs, config = Pairs(47326), DPOConfig(beta=23.0)
    assert float(dpo.prefer(*pairs.sides(), config).margin[0]) < -PLAIN_HOLDS
    found = gradient(lambda at: pairs.loss(config, at).sum(), pairs.policy)
    assert bool((found[0][pairs.mask[0]] == -config.beta).all())
    assert bool((found[2][pairs.mask[2]] == config.beta).all())


def test_gradients_are_those_of_finite_differences() -> None:
    pairs = Pairs(11)
    config = DPOConfig(beta=0.5, length_normalized=True, label_smoothing=0.1)
    policy = pairs.policy.requires_grad_()
    assert torch.autograd.gradcheck(lambda at: pairs.loss(config, at), policy)


@settings(deadline=None)
@given(SEEDS, CONFIGS)
def test_what_the_mask_excludes_changes_nothing(seed: int, config: DPOConfig) -> None:
    pairs = Pairs(seed)
    before = pairs.loss(config)
    pairs.policy[~pairs.mask], pairs.reference[~pairs.mask] = torch.nan, torch.inf
    assert torch.equal(pairs.loss(config), before)
    found = gradient(lambda at: pairs.loss(config, at).sum(), pairs.policy)
    assert bool((found[~pairs.mask] == 0).all())
    assert bool(found.isfinite().all())


@given(SEEDS, CONFIGS, st.floats(-5, 5))
def test_only_the_ratio_to_the_reference_matters(
    seed: int, config: DPOConfig, shift: float
) -> None:
    pairs = Pairs(seed)
    before = pairs.loss(config)
    pairs.policy, pairs.reference = pairs.policy + shift, pairs.reference + shift
    assert torch.allclose(pairs.loss(config), before, atol=1e-9)


@given(SEEDS, CONFIGS)
def test_swapped_sides_turn_the_margin(seed: int, config: DPOConfig) -> None:
    chosen, rejected = Pairs(seed).sides()
    there, back = dpo.prefer(chosen, rejected, config), dpo.prefer(rejected, chosen, config)
    assert torch.equal(there.margin, -back.margin)
    smooth = 1 - 2 * config.label_smoothing
    assert torch.allclose(there.loss - back.loss, -smooth * there.margin, atol=1e-9)


@given(CONFIGS)
def test_a_policy_that_is_its_reference_loses_ln_2(config: DPOConfig) -> None:
    found = dpo.prefer(_side(0.0), _side(0.0), config)
    assert float(found.loss) == pytest.approx(math.log(2))
    assert found.metrics()["accuracy"] == 0


def test_smoothed_labels_are_best_at_a_finite_margin() -> None:
    config = DPOConfig(beta=1.0, label_smoothing=0.1)
    best = math.log(0.9 / 0.1)

    def slope(margin: float) -> float:
        def value(at: torch.Tensor) -> torch.Tensor:
            side = Completions(at, torch.zeros_like(at), torch.ones_like(at))
            return dpo.prefer(side, _side(0.0), config).mean()

        return float(gradient(value, torch.tensor([margin], dtype=torch.float64)))

    assert slope(best) == pytest.approx(0, abs=1e-12)
    assert slope(best - 1) < 0 < slope(best + 1)


def test_extreme_margins_stay_finite_in_float32() -> None:
    far = Completions(torch.tensor([-1e4]), torch.zeros(1), torch.ones(1))
    near = Completions(torch.zeros(1), torch.zeros(1), torch.ones(1))
    found = dpo.prefer(far, near, DPOConfig(beta=1.0))
    assert float(found.loss) == pytest.approx(1e4)


def test_metrics_are_means_over_pairs() -> None:
    ratios = torch.tensor([2.0, -1.0])
    sides = [Completions(each, torch.zeros(2), torch.ones(2)) for each in (ratios, -ratios)]
    found = dpo.prefer(sides[0], sides[1], DPOConfig(beta=0.5)).metrics()
    loss = (math.log1p(math.exp(-2)) + math.log1p(math.exp(1))) / 2
    expected = {
        "loss": loss, "margin": 0.5, "accuracy": 0.5, "chosen_reward": 0.25,
        "rejected_reward": -0.25,
    }  # fmt: skip
    assert found == pytest.approx(expected)


def test_micro_batches_add_up_to_the_batch() -> None:
    pairs, config = Pairs(5), DPOConfig()
    whole = dpo.prefer(*pairs.sides(), config)
    parts = [
        dpo.prefer(*(_row(side, row) for side in pairs.sides()), config).mean(pairs=2)
        for row in range(2)
    ]
    assert float(sum(parts)) == pytest.approx(float(whole.mean()))


def _row(side: Completions, row: int) -> Completions:
    part = slice(row, row + 1)
    return Completions(side.policy[part], side.reference[part], side.lengths[part])


def test_a_side_without_its_other_is_an_error() -> None:
    two = Completions(torch.zeros(2), torch.zeros(2), torch.ones(2))
    with pytest.raises(ValueError, match="differ"):
        dpo.prefer(two, _side(0.0), DPOConfig())
