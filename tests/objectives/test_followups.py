import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from posttrain.objectives import followups
from posttrain.objectives.config import FollowUpConfig
from tests.objectives import oracle
from tests.objectives.draws import SEEDS, gradient, log_probs, mask

TOKENS = 6
FIRST = st.integers(0, 2)


class Batch:
    """Three completions of three to six tokens."""

    def __init__(self, seed: int) -> None:
        self.policy, self.hindsight, self.old = log_probs(seed, 3, 3, TOKENS)
        self.old = self.policy + self.old / 10
        self.mask = mask(seed, 3, TOKENS, least=3)

    def offline(self, config: FollowUpConfig, policy: torch.Tensor) -> torch.Tensor:
        return followups.offline(policy, self.hindsight, self.mask, config)

    def online(self, config: FollowUpConfig, policy: torch.Tensor) -> torch.Tensor:
        gain = followups.signal(self.old, self.hindsight)
        return followups.online(policy, self.old, gain, self.mask, config)


@settings(deadline=None)
@given(SEEDS, FIRST)
def test_offline_is_the_plain_formula(seed: int, first: int) -> None:
    batch, config = Batch(seed), FollowUpConfig(ignore_first=first)

    def plain(at: torch.Tensor) -> torch.Tensor:
        return oracle.follow_up(at, batch.hindsight, batch.mask, first)

    def ours(at: torch.Tensor) -> torch.Tensor:
        return batch.offline(config, at).mean()

    assert float(ours(batch.policy)) == pytest.approx(float(plain(batch.policy)), rel=1e-9)
    assert torch.allclose(gradient(ours, batch.policy), gradient(plain, batch.policy), atol=1e-12)


@settings(deadline=None)
@given(SEEDS, FIRST)
def test_online_is_the_plain_formula(seed: int, first: int) -> None:
    config = FollowUpConfig(ignore_first=first, clip_low=0.1, clip_high=0.15)
    batch = Batch(seed)

    def plain(at: torch.Tensor) -> torch.Tensor:
        gain = batch.hindsight - batch.old
        return oracle.clipped_follow_up(at, batch.old, gain, batch.mask, first, 0.1, 0.15)

    def ours(at: torch.Tensor) -> torch.Tensor:
        return batch.online(config, at).mean()

    assert float(ours(batch.policy)) == pytest.approx(float(plain(batch.policy)), abs=1e-12)
    assert torch.allclose(gradient(ours, batch.policy), gradient(plain, batch.policy), atol=1e-12)


@pytest.mark.parametrize("kind", ["offline", "online"])
@given(seed=SEEDS)
def test_what_does_not_count_changes_nothing(kind: str, seed: int) -> None:
    """Padding and the first tokens, NaN or not."""
    batch, config = Batch(seed), FollowUpConfig()
    loss = getattr(batch, kind)
    before = loss(config, batch.policy)
    out = ~followups.counted(batch.mask, config)
    batch.policy[out], batch.hindsight[out], batch.old[out] = torch.nan, torch.inf, torch.nan
    assert torch.equal(loss(config, batch.policy), before)
    found = gradient(lambda at: loss(config, at).sum(), batch.policy)
    assert bool(found.isfinite().all())
    assert bool((found[out] == 0).all())


@given(SEEDS)
def test_a_follow_up_that_says_nothing_teaches_nothing(seed: int) -> None:
    batch, config = Batch(seed), FollowUpConfig()
    batch.hindsight = batch.policy.clone()
    assert torch.equal(batch.offline(config, batch.policy), torch.zeros(3).double())


@given(SEEDS, st.floats(-3, 3))
def test_online_sees_only_differences_within_a_completion(seed: int, shift: float) -> None:
    batch, config = Batch(seed), FollowUpConfig()
    before = batch.online(config, batch.policy)
    batch.hindsight = batch.hindsight + shift
    assert torch.allclose(batch.online(config, batch.policy), before, atol=1e-12)


def test_first_tokens_are_those_of_the_completion() -> None:
    rows = torch.tensor([[0, 0, 1, 1, 1, 0], [1, 1, 1, 0, 0, 0]])
    found = followups.counted(rows, FollowUpConfig(ignore_first=2))
    assert found.int().tolist() == [[0, 0, 0, 0, 1, 0], [0, 0, 1, 0, 0, 0]]


@pytest.mark.parametrize("kind", ["offline", "online"])
def test_a_completion_of_ignored_tokens_alone_is_an_error(kind: str) -> None:
    batch = Batch(0)
    batch.mask[1, 2:] = False
    with pytest.raises(ValueError, match="row 1 has no token that counts"):
        getattr(batch, kind)(FollowUpConfig(), batch.policy)
