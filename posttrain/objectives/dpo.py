"""DPO: the chosen completion's implicit reward above the rejected one's (arXiv 2305.18290).

Length normalisation as in Tulu 3 (arXiv 2411.15124): beta over the completion's own tokens. Label
smoothing is conservative DPO: a share of the pairs is held to be the wrong way round. The chosen
side's likelihood is added as in iterative reasoning preference optimization (arXiv 2404.19733).
"""

from dataclasses import dataclass

import torch
from torch.nn import functional

from posttrain.objectives.completions import Completions
from posttrain.objectives.config import DPOConfig
from posttrain.objectives.reduction import precise, same_shape, share


@dataclass(frozen=True)
class Preferred:
    """Of each pair: its loss, and without gradient both implicit rewards; all (pairs,).

    A reward is beta (over the length, if normalised) times log policy - log reference.
    """

    loss: torch.Tensor
    chosen: torch.Tensor
    rejected: torch.Tensor

    @property
    def margin(self) -> torch.Tensor:
        """By how much the chosen side's reward is higher, (pairs,)."""
        return self.chosen - self.rejected

    def mean(self, pairs: int | None = None) -> torch.Tensor:
        """The share in the mean over `pairs` pairs of the whole batch."""
        return share(self.loss, pairs)

    def metrics(self) -> dict[str, float]:
        """Means over the pairs; a pair of equal rewards is not accurate."""
        means = {
            "loss": self.loss.detach(), "margin": self.margin,
            "accuracy": (self.margin > 0).float(),
            "chosen_reward": self.chosen, "rejected_reward": self.rejected,
        }  # fmt: skip
        return {name: float(values.mean()) for name, values in means.items()}


def prefer(chosen: Completions, rejected: Completions, config: DPOConfig) -> Preferred:
    """-(1 - e) log sigmoid(m) - e log sigmoid(-m) of each pair's margin m of implicit rewards.

    `e` is the label smoothing; `nll` times the chosen side's negative log-likelihood per token is
    added. ValueError unless both sides have one completion for each pair.
    """
    same_shape(chosen.policy, rejected.policy)
    better, worse = (_reward(side, config) for side in (chosen, rejected))
    margin = better - worse
    loss = -functional.logsigmoid(margin) * (1 - config.label_smoothing)
    loss = loss - functional.logsigmoid(-margin) * config.label_smoothing
    if config.nll:
        loss = loss - config.nll * precise(chosen.policy) / chosen.lengths
    return Preferred(loss, better.detach(), worse.detach())


def _reward(side: Completions, config: DPOConfig) -> torch.Tensor:
    reward = config.beta * side.log_ratio
    return reward / side.lengths if config.length_normalized else reward
