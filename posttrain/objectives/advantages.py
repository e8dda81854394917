"""Advantages of a prompt's group of rollouts: pure functions of the group's rewards.

All take and give (groups, n), n rollouts to a prompt; every token of a rollout has its advantage.
"""

import torch

from posttrain.objectives.reduction import precise

_NO_SUCCESS = 1e-6


def rloo(rewards: torch.Tensor) -> torch.Tensor:
    """The reward less the mean of the group's others; 0 in a group of one (arXiv 2402.14740)."""
    n = rewards.shape[-1]
    if n == 1:
        return torch.zeros_like(precise(rewards))
    rewards = precise(rewards)
    return (n * rewards - rewards.sum(-1, keepdim=True)) / (n - 1)


def max_rl(rewards: torch.Tensor) -> torch.Tensor:
    """MaxRL: (reward - mean) / mean of the group; 0 in a group without success.

    ValueError for a negative reward: dividing by a negative mean would turn the sign.
    """
    rewards = precise(rewards)
    if bool((rewards < 0).any()):
        raise ValueError("MaxRL takes rewards of at least 0: shift them, or use RLOO")
    mean = rewards.mean(-1, keepdim=True)
    return torch.where(mean > _NO_SUCCESS, rewards / mean.clamp(min=_NO_SUCCESS) - 1, 0.0)
