import itertools
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic import ValidationError
from verl.trainer.ppo.core_algos import get_adv_estimator_fn, get_policy_loss_fn
from verl.trainer.ppo.rollout_corr_helper import compute_rollout_correction_weights
from verl.workers.config import FSDPActorConfig

from posttrain.objectives import advantages
from posttrain.rl import objective
from posttrain.rl.algorithm import ObjectiveConfig

LOSSES: tuple[Any, ...] = ({"gmpo": {}}, {"ppo": {}}, {"gspo": {}})
CORRECTIONS: tuple[Any, ...] = (
    None, {"tis": {"level": "token"}}, {"mis": {"level": "sequence", "bounds": [0.5, 3]}},
)  # fmt: skip


def config(**changes: Any) -> ObjectiveConfig:
    return ObjectiveConfig.model_validate(changes)


@pytest.mark.parametrize("loss", LOSSES)
@settings(deadline=None, max_examples=30)
@given(data=st.data(), rows=st.integers(1, 5))
def test_a_loss_is_the_same_however_the_batch_is_cut(
    loss: Any, data: st.DataObject, rows: int
) -> None:
    asked = config(loss=loss).settings()
    lengths = data.draw(st.lists(st.integers(1, 4), min_size=rows, max_size=rows))
    torch.manual_seed(data.draw(st.integers(0, 99)))
    ratios, given_advantages = torch.randn(rows, 4) / 4, torch.randn(rows, 1)
    mask = (torch.arange(4) < torch.tensor(lengths)[:, None]).float()

    def value(part: slice) -> float:
        actor = FSDPActorConfig(
            strategy="fsdp2", rollout_n=1, ppo_micro_batch_size_per_gpu=1,
            clip_ratio_low=asked["actor_rollout_ref.actor.clip_ratio_low"],
            clip_ratio_high=asked["actor_rollout_ref.actor.clip_ratio_high"],
        )  # fmt: skip
        actor.global_batch_info.update(
            global_batch_size=rows, dp_size=1, batch_num_tokens=sum(lengths)
        )
        compute = get_policy_loss_fn(asked["actor_rollout_ref.actor.policy_loss.loss_mode"])
        found, _ = compute(
            torch.zeros_like(ratios[part]), ratios[part], given_advantages[part] * mask[part],
            mask[part], asked["actor_rollout_ref.actor.loss_agg_mode"], actor,
        )  # fmt: skip
        return float(found)

    cut = data.draw(st.integers(0, rows))
    pieces = [slice(0, cut), slice(cut, rows)]
    apart = sum(value(piece) for piece in pieces if piece.stop > piece.start)
    assert apart == pytest.approx(value(slice(0, rows)), abs=1e-5)


@given(st.lists(st.lists(st.integers(0, 1), min_size=4, max_size=4), min_size=1, max_size=3))
def test_verl_gets_the_max_rl_advantages_of_each_group(groups: list[list[int]]) -> None:
    rewards = torch.tensor(groups, dtype=torch.float32)
    tokens = torch.zeros(rewards.numel(), 3)
    tokens[:, 2] = rewards.flatten()
    index = np.array([f"prompt {number}" for number in range(len(groups)) for _ in range(4)])
    asked = config(advantage="max_rl").settings()["algorithm.adv_estimator"]
    found, _ = get_adv_estimator_fn(asked)(
        token_level_rewards=tokens, response_mask=torch.ones_like(tokens), index=index, config=None
    )
    expected = advantages.max_rl(rewards).flatten()[:, None].expand(-1, 3)
    torch.testing.assert_close(found, expected)
    assert get_adv_estimator_fn("max_rl") is objective.max_rl


def test_grpo_is_over_the_deviation_and_rloo_is_not() -> None:
    keys = [config(advantage=name).settings() for name in ("grpo", "rloo", "max_rl")]
    assert [each["algorithm.norm_adv_by_std_in_grpo"] for each in keys] == [True, False, False]


@pytest.mark.parametrize(("loss", "correction"), [*itertools.product(LOSSES, CORRECTIONS)])
def test_verl_has_every_setting(loss: Any, correction: Any) -> None:
    from posttrain.rl.session import compose

    asked = config(loss=loss, correction=correction).settings()
    composed = compose(asked)
    assert composed.algorithm.rollout_correction.bypass_mode is (correction is None)
    assert composed.actor_rollout_ref.actor.policy_loss.loss_mode in ("gmpo", "vanilla", "gspo")


@pytest.mark.parametrize(
    ("correction", "expected"),
    [
        ({"tis": {"level": "token", "at_most": 2}}, [0.4, 1.5, 2.0]),
        ({"mis": {"level": "token", "bounds": [0.5, 2]}}, [0.0, 1.5, 0.0]),
    ],
)
def test_verl_truncates_or_masks_as_asked(correction: Any, expected: list[float]) -> None:
    asked = config(correction=correction).settings()
    weights, _ = compute_rollout_correction_weights(
        torch.tensor([[0.4, 1.5, 3.0]]).log(), torch.ones(1, 3),
        rollout_is=asked["algorithm.rollout_correction.rollout_is"],
        rollout_is_threshold=asked["algorithm.rollout_correction.rollout_is_threshold"],
    )  # fmt: skip
    assert weights.tolist()[0] == pytest.approx(expected)


@pytest.mark.parametrize(
    ("wrong", "told"),
    [
        ({"loss": {}}, "name one of gmpo, ppo, gspo"),
        ({"loss": {"ppo": {}, "gmpo": {}}}, "name one of"),
        ({"correction": {"mis": {"level": "token", "bounds": [1.5, 2]}}}, "must lie around 1"),
        ({"correction": {"tis": {"level": "group"}}}, "token"),
        ({"advantage": "gae"}, "max_rl"),
    ],
)
def test_what_is_no_objective_is_told(wrong: Any, told: str) -> None:
    with pytest.raises(ValidationError, match=told):
        config(**wrong)
