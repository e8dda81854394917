"""Self-distillation from a user's next message (Buening et al. 2026, arXiv 2603.12273).

The signal of a token is by how much its log-probability rises once the model has read what the
user said next. Both terms are the current model's; there is no reward and no reference.
"""

import torch

from posttrain.objectives.config import FollowUpConfig
from posttrain.objectives.reduction import only, precise, row_lengths, row_sums, same_shape


def counted(mask: torch.Tensor, config: FollowUpConfig) -> torch.Tensor:
    """`mask` (rows, tokens) of completions without each row's first tokens, to be ignored."""
    mask = mask.bool()
    return mask & (mask.cumsum(-1) > config.ignore_first)


def signal(log_probs: torch.Tensor, hindsight: torch.Tensor) -> torch.Tensor:
    """log p(token | prompt, follow-up) - log p(token | prompt): (rows, tokens), no gradient."""
    same_shape(log_probs, hindsight)
    return (precise(hindsight) - precise(log_probs)).detach()


def offline(
    log_probs: torch.Tensor, hindsight: torch.Tensor, mask: torch.Tensor, config: FollowUpConfig
) -> torch.Tensor:
    """-sum(signal x log p) / tokens of each completion: (rows, tokens) to (rows,).

    `log_probs` are the model's without, `hindsight` with the follow-up in the prompt; `mask` is
    true for the completion, its end token among it. ValueError if nothing of a row counts.
    """
    mask = counted(mask, config)
    log_probs = only(log_probs, mask)
    gain = signal(log_probs, only(hindsight, mask))
    return -(gain * log_probs).sum(-1) / row_lengths(mask)


def online(
    log_probs: torch.Tensor, old_log_probs: torch.Tensor, gain: torch.Tensor, mask: torch.Tensor,
    config: FollowUpConfig,
) -> torch.Tensor:  # fmt: skip
    """PPO's clipped objective with the centred signal as advantage, (rows, tokens) to (rows,).

    `gain` is the signal of the policy that sampled, whose log-probabilities are `old_log_probs`.
    ValueError if nothing of a row counts.
    """
    mask = counted(mask, config)
    advantages = centred(gain, mask)
    ratio = (only(log_probs, mask) - only(old_log_probs.detach(), mask)).exp()
    clipped = ratio.clamp(1 - config.clip_low, 1 + config.clip_high)
    return -torch.minimum(ratio * advantages, clipped * advantages).sum(-1) / row_lengths(mask)


def centred(gain: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
    """`gain` less its row's mean over the tokens where `mask` is true, and 0 elsewhere;
    (rows, tokens), no gradient.
    """
    means = row_sums(gain, mask) / row_lengths(mask)
    return only(gain - means[:, None], mask).detach()
