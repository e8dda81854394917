"""Proof that a sampler's policy is the trainer's: both give what was sampled the same probability.

A weight that did not arrive, another RoPE, another temperature or another tokenizer would train on
what the policy never said, and nothing else would tell.
"""

import math
from collections.abc import Callable, Mapping, Sequence

import torch

from posttrain.data.chat import Rendered
from posttrain.training.rollouts.source import Response, Rollouts, document

LogProbs = Callable[[Sequence[Rendered]], list[list[float]]]
"""The trainer's log-probabilities of documents' targets, at the sampling temperature."""


class Checked:
    """Passes on what `rollouts` samples, where the trainer agrees.

    `gap` is by how much they were apart since the last weights, in nats per token.
    """

    def __init__(self, rollouts: Rollouts, trainer: LogProbs, most: float) -> None:
        self._rollouts, self._trainer, self._most = rollouts, trainer, most
        self.gap = 0.0

    def follow(self, weights: Mapping[str, torch.Tensor]) -> None:
        """As `Rollouts`."""
        self._rollouts.follow(weights)
        self.gap = 0.0

    def respond(
        self, prompts: Sequence[Sequence[int]], seed: int, *, with_log_probs: bool
    ) -> list[Response]:
        """As `Rollouts`; RuntimeError if the mean difference per token is above `most` nats."""
        found = self._rollouts.respond(prompts, seed, with_log_probs=True)
        documents = [document(*each) for each in zip(prompts, map(_ids, found), strict=True)]
        off = gap([each.log_probs or [] for each in found], self._trainer(documents))
        if not off <= self._most:
            raise RuntimeError(
                f"the rollout engine's log-probabilities are {off:.4g} nats per token off the "
                f"trainer's (rollouts.gap is {self._most:g}): it samples from another policy; "
                "nothing was trained on it"
            )
        self.gap = max(self.gap, off)
        return found


def _ids(response: Response) -> list[int]:
    return response.ids


def gap(theirs: Sequence[Sequence[float]], ours: Sequence[Sequence[float]]) -> float:
    """The mean difference in nats per token; not finite where a value is not."""
    off = [
        abs(left - right)
        for pair in zip(theirs, ours, strict=True)
        for left, right in zip(*pair, strict=True)
    ]
    return math.fsum(off) / max(len(off), 1)
