import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from posttrain.objectives import advantages
from tests.objectives.draws import SEEDS, normal

GROUPS = [[1, 0, 0, 0, 0, 0, 0, 0], [1, 1, 1, 0, 0, 0, 0, 0]]


def test_vectors_of_rloo() -> None:
    found = advantages.rloo(torch.tensor(GROUPS))
    assert found[0].tolist() == pytest.approx([1] + [-1 / 7] * 7)
    assert found[1].tolist() == pytest.approx([0.7142857] * 3 + [-0.4285714] * 5, abs=1e-7)


def test_vectors_of_max_rl() -> None:
    found = advantages.max_rl(torch.tensor(GROUPS))
    assert found[1].tolist() == pytest.approx([1.6666667] * 3 + [-1] * 5, abs=1e-6)


@given(SEEDS, st.integers(1, 3), st.integers(2, 6))
def test_rloo_is_the_reward_less_the_others_mean(seed: int, groups: int, n: int) -> None:
    rewards = normal(seed, groups, n)
    found = advantages.rloo(rewards)
    for row, group in enumerate(rewards.tolist()):
        for place, reward in enumerate(group):
            others = [each for index, each in enumerate(group) if index != place]
            assert float(found[row, place]) == pytest.approx(reward - sum(others) / len(others))


@given(SEEDS, st.integers(2, 6), st.floats(-9, 9))
def test_rloo_does_not_see_what_all_rewards_share(seed: int, n: int, shift: float) -> None:
    rewards = normal(seed, 2, n)
    found = advantages.rloo(rewards)
    assert torch.allclose(advantages.rloo(rewards + shift), found, atol=1e-12)
    assert torch.allclose(found.sum(-1), torch.zeros(2).double(), atol=1e-12)


@given(SEEDS, st.integers(1, 6), st.floats(0.1, 9))
def test_max_rl_does_not_see_the_scale_of_rewards(seed: int, n: int, scale: float) -> None:
    rewards = normal(seed, 2, n).abs() + 0.01
    found = advantages.max_rl(rewards)
    assert torch.allclose(advantages.max_rl(rewards * scale), found, atol=1e-9)
    assert torch.allclose(found.sum(-1), torch.zeros(2).double(), atol=1e-9)


def test_a_group_without_a_difference_has_no_advantage() -> None:
    for rewards in ([[0.0, 0.0]], [[1.0, 1.0]], [[1.0]]):
        for estimate in (advantages.rloo, advantages.max_rl):
            assert float(estimate(torch.tensor(rewards)).abs().sum()) == 0


def test_max_rl_refuses_negative_rewards() -> None:
    with pytest.raises(ValueError, match="rewards of at least 0"):
        advantages.max_rl(torch.tensor([[1.0, -1.0]]))
