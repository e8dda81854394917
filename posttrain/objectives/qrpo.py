"""QRPO: regress the policy onto the optimal one of a reward whose partition function is known
(arXiv 2507.08068).

The reward is a quantile among completions of the reference policy: uniform on [0, 1] under it, so
that Z = beta (exp(1 / beta) - 1) exactly.
"""

from dataclasses import dataclass

import torch

from posttrain.objectives.completions import Completions
from posttrain.objectives.config import QRPOConfig
from posttrain.objectives.reduction import precise, same_shape, share


@dataclass(frozen=True)
class Regressed:
    """Of each completion: its loss, and without gradient target and implicit reward; (rows,)."""

    loss: torch.Tensor
    target: torch.Tensor
    reward: torch.Tensor

    def mean(self, rows: int | None = None) -> torch.Tensor:
        """The share in the mean over `rows` completions of the whole batch."""
        return share(self.loss, rows)

    def metrics(self) -> dict[str, float]:
        """Means over the completions."""
        means = {"loss": self.loss.detach(), "target": self.target, "reward": self.reward}
        return {name: float(values.mean()) for name, values in means.items()}


def quantiles(rewards: torch.Tensor, references: torch.Tensor) -> torch.Tensor:
    """Share of the references' rewards that are at most a completion's own.

    `rewards` (rows,), `references` (rows, n) for n completions of the reference policy to the same
    prompt, result (rows,) in [0, 1]. ValueError if a reward is missing (not finite) or n is 0.
    """
    same_shape(rewards, references[..., 0] if references.shape[-1] else references)
    if not (rewards.isfinite().all() and references.isfinite().all()):
        raise ValueError("a reward is not finite: leave its prompt out of the batch")
    return (references <= rewards[:, None]).to(precise(rewards).dtype).mean(-1)


def beta_log_z(beta: torch.Tensor) -> torch.Tensor:
    """beta log(beta (exp(1 / beta) - 1)) for beta > 0, any shape; in (1/2, 1)."""
    beta = precise(beta)
    return 1 + beta * torch.log(-beta * torch.expm1(-1 / beta))


def betas(lengths: torch.Tensor, config: QRPOConfig) -> torch.Tensor:
    """The beta of each completion of `lengths` tokens, (rows,); float64 if the lengths are."""
    beta = torch.full_like(precise(lengths), config.beta)
    return (beta / lengths).clamp(max=config.cap) if config.length_normalized else beta


def regress(completions: Completions, quantile: torch.Tensor, config: QRPOConfig) -> Regressed:
    """(quantile - beta log Z - beta log(policy / reference))^2 of each completion; all (rows,).

    Chosen and rejected completions are rows alike.
    """
    same_shape(completions.policy, quantile)
    ratio = completions.log_ratio
    beta = betas(completions.lengths.to(ratio.dtype), config)
    target = precise(quantile.detach()) - beta_log_z(beta)
    reward = beta * ratio
    return Regressed((target - reward).square(), target, reward.detach())
