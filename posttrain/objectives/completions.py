"""Completions as preference objectives see them: two log-probabilities and a length."""

from dataclasses import dataclass
from typing import Self

import torch

from posttrain.objectives.reduction import precise, row_lengths, row_sums, same_shape


@dataclass(frozen=True)
class Completions:
    """Summed log-probabilities under policy and reference in nats, and tokens; each (rows,).

    ValueError if shapes differ or a completion has no token.
    """

    policy: torch.Tensor
    reference: torch.Tensor
    lengths: torch.Tensor

    def __post_init__(self) -> None:
        same_shape(self.policy, self.reference, self.lengths)
        if bool((self.lengths < 1).any()):
            raise ValueError("a completion has no token: leave it out of the batch")

    @classmethod
    def summed(cls, policy: torch.Tensor, reference: torch.Tensor, mask: torch.Tensor) -> Self:
        """From log-probabilities of tokens; all (rows, tokens), `mask` true for the completion."""
        return cls(row_sums(policy, mask), row_sums(reference, mask), row_lengths(mask))

    @property
    def log_ratio(self) -> torch.Tensor:
        """log policy - log reference, (rows,); the gradient is the policy's."""
        return precise(self.policy) - precise(self.reference.detach())
