"""Policy loss and advantages of ours, registered with verl (it imports `model.external_lib`).

verl's "geo_mean" averages over the sequences of a micro-batch, and the engine then adds up the
micro-batches' gradients: the gradient would grow with their number. Ours is the mean over the
whole mini-batch, however it is cut up.
"""

from typing import Any

import numpy as np
import torch
from verl.trainer.ppo.core_algos import (
    compute_policy_loss_geo_mean,
    register_adv_est,
    register_policy_loss,
)

from posttrain.objectives import advantages as formulas


@register_policy_loss("gmpo")  # type: ignore[untyped-decorator]
def gmpo(
    old_log_prob: torch.Tensor,
    log_prob: torch.Tensor,
    advantages: torch.Tensor,
    response_mask: torch.Tensor,
    loss_agg_mode: str = "token-mean",
    config: Any = None,
    rollout_is_weights: torch.Tensor | None = None,
) -> tuple[torch.Tensor, dict[str, Any]]:
    """GMPO (facts.md 2.3) of a micro-batch's share in the mini-batch mean; tensors [rows, tokens].

    Every sequence counts alike whatever its length; `loss_agg_mode` has no say.
    """
    loss, metrics = compute_policy_loss_geo_mean(
        old_log_prob, log_prob, advantages, response_mask, loss_agg_mode, config,
        rollout_is_weights,
    )  # fmt: skip
    batch = config.global_batch_info
    rows: int = old_log_prob.shape[0]
    return loss * rows / batch["global_batch_size"] * batch["dp_size"], metrics


@register_adv_est("max_rl")  # type: ignore[untyped-decorator]
def max_rl(
    token_level_rewards: torch.Tensor, response_mask: torch.Tensor, index: np.ndarray, **_: Any
) -> tuple[torch.Tensor, torch.Tensor]:
    """MaxRL's advantages and, as verl wants them, the same as returns; all [rows, tokens].

    `index` names each row's group.
    """
    rewards = token_level_rewards.sum(-1)
    found = torch.zeros_like(rewards)
    for group in set(index.tolist()):
        rows = torch.from_numpy(index == group)
        found[rows] = formulas.max_rl(rewards[rows][None])[0]
    spread = found[:, None] * response_mask
    return spread, spread
