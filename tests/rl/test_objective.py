from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from verl.trainer.ppo.core_algos import get_adv_estimator_fn, get_policy_loss_fn
from verl.workers.config import FSDPActorConfig

from posttrain.rl import objective


def _config(rows: int) -> Any:
    config = FSDPActorConfig(
        strategy="fsdp2", rollout_n=1, ppo_micro_batch_size_per_gpu=1,
        clip_ratio_low=0.2, clip_ratio_high=0.28,
    )  # fmt: skip
    config.global_batch_info.update(global_batch_size=rows, dp_size=1)
    return config


def _loss(ratios: torch.Tensor, advantages: torch.Tensor, rows: int) -> float:
    mask = torch.ones_like(ratios)
    spread = advantages[:, None] * mask
    loss, _ = objective.gmpo(torch.zeros_like(ratios), ratios, spread, mask, config=_config(rows))
    return float(loss)


@pytest.mark.parametrize(("advantage", "expected"), [(1.0, -1.0978276), (-1.0, 1.1813604)])
def test_gmpo_clips_log_ratios_by_the_sign_of_the_advantage(
    advantage: float, expected: float
) -> None:
    ratios = torch.tensor([[0.5, -0.1, 0.1]])  # facts.md appendix A
    assert _loss(ratios, torch.tensor([advantage]), 1) == pytest.approx(expected, abs=1e-6)


@settings(deadline=None)
@given(st.integers(1, 6), st.data())
def test_gmpo_is_the_same_however_the_batch_is_cut(rows: int, data: st.DataObject) -> None:
    values = st.floats(-1, 1, width=32)
    ratios = torch.tensor(data.draw(st.lists(st.lists(values, min_size=3, max_size=3),
                                             min_size=rows, max_size=rows)))  # fmt: skip
    advantages = torch.tensor(data.draw(st.lists(values, min_size=rows, max_size=rows)))
    cut = data.draw(st.integers(0, rows))
    parts = [(ratios[:cut], advantages[:cut]), (ratios[cut:], advantages[cut:])]
    pieces = sum(_loss(ratio, advantage, rows) for ratio, advantage in parts if len(ratio))
    assert pieces == pytest.approx(_loss(ratios, advantages, rows), abs=1e-5)


def test_verl_knows_the_loss_by_its_name() -> None:
    assert get_policy_loss_fn("gmpo") is objective.gmpo


@pytest.mark.parametrize(
    ("rewards", "expected"),
    [
        ([1, 0, 0, 0, 0, 0, 0, 0], {1: 1.0, 0: -1 / 7}),
        ([1, 1, 1, 0, 0, 0, 0, 0], {1: 0.7142857, 0: -0.4285714}),
        ([1, 1, 1, 1, 1, 1, 1, 1], {1: 0.0}),
    ],
)
def test_rloo_advantages(rewards: list[int], expected: dict[int, float]) -> None:
    """verl's estimator against facts.md appendix A."""
    scores = torch.tensor(rewards, dtype=torch.float32)[:, None]
    estimate = get_adv_estimator_fn("rloo_vectorized")
    advantages, _ = estimate(scores, torch.ones_like(scores), index=np.array(["g"] * 8))
    for reward, advantage in zip(rewards, advantages[:, 0].tolist(), strict=True):
        assert advantage == pytest.approx(expected[reward], abs=1e-6)
