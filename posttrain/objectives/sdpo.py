"""SDPO: the student's distribution is drawn to that of a teacher who saw more (arXiv 2601.20802).

Student and teacher score the same tokens, which the student sampled; only the student is trained.
The objective is the mean over the batch's tokens of a divergence between the two.
"""

from dataclasses import dataclass

import torch

from posttrain.objectives.config import SDPOConfig
from posttrain.objectives.divergence import divergence, on_support, top
from posttrain.objectives.reduction import precise, same_shape, share

_FURTHEST = 20.0
"""Largest log-ratio between the policy and the one that sampled that is told apart."""


@dataclass(frozen=True)
class Distilled:
    """Of each token that counts: its weighted loss, and without gradient its weight and log-ratio.

    All (tokens,), in the order of the mask. `log_ratio` is log student - log teacher of the sampled
    token in nats.
    """

    loss: torch.Tensor
    weight: torch.Tensor
    log_ratio: torch.Tensor

    def mean(self, tokens: int | None = None) -> torch.Tensor:
        """The share in the mean over `tokens`, those that count in the whole batch."""
        return share(self.loss, tokens)

    def metrics(self) -> dict[str, float]:
        """Means over the tokens here; empty if there are none."""
        if not self.loss.numel():
            return {}
        means = {
            "loss": self.loss.detach(), "weight": self.weight,
            "log_ratio": self.log_ratio, "log_ratio_size": self.log_ratio.abs(),
        }  # fmt: skip
        return {name: float(values.mean()) for name, values in means.items()}


def distil(
    student: torch.Tensor,
    teacher: torch.Tensor,
    sampled: torch.Tensor,
    mask: torch.Tensor,
    config: SDPOConfig,
    *,
    old_log_probs: torch.Tensor | None = None,
    rollout_weights: torch.Tensor | None = None,
) -> Distilled:
    """Loss of each token where `mask` is true.

    `student` and `teacher` are logits (..., vocabulary) in front of the tokens `sampled` (...);
    `mask` (...) is true for tokens of a completion that are the student's own, where there was
    something to tell the teacher. `old_log_probs` (...) are those of `sampled` under the policy
    that sampled, at the rollouts' temperature; without them it is the student itself.
    `rollout_weights` (...) multiply the loss. ValueError if shapes or vocabularies differ.
    """
    _check(student, teacher, sampled, mask)
    mask = mask.bool()
    student, teacher = (
        precise(each[mask]) / config.temperature for each in (student, teacher.detach())
    )
    ours, theirs = (_of_token(each, sampled[mask]) for each in (student, teacher))
    ratio = (ours - theirs).detach()
    loss = ratio * ours if config.mode == "sampled" else _divergence(student, teacher, config)
    weight = torch.ones_like(ratio)
    if old_log_probs is not None and config.is_clip is not None:
        same_shape(old_log_probs, mask)
        weight = importance(ours, old_log_probs[mask], config.is_clip)
    if rollout_weights is not None:
        same_shape(rollout_weights, mask)
        weight = weight * rollout_weights[mask].detach()
    return Distilled(loss * weight, weight, ratio)


def importance(log_probs: torch.Tensor, old_log_probs: torch.Tensor, clip: float) -> torch.Tensor:
    """Policy over sampling policy of each token, at most `clip`; no gradient, shapes (...)."""
    same_shape(log_probs, old_log_probs)
    ratio = (precise(log_probs) - precise(old_log_probs)).detach()
    return ratio.clamp(-_FURTHEST, _FURTHEST).exp().clamp(max=clip)


def _divergence(student: torch.Tensor, teacher: torch.Tensor, config: SDPOConfig) -> torch.Tensor:
    if config.mode == "full":
        return divergence(student.log_softmax(-1), teacher.log_softmax(-1), config.alpha)
    indices = top(student, config.top_k)
    ours, theirs = (on_support(each, indices, config.add_tail) for each in (student, teacher))
    return divergence(ours, theirs, config.alpha)


def _of_token(logits: torch.Tensor, tokens: torch.Tensor) -> torch.Tensor:
    """Log-probabilities of `tokens`: (tokens, vocabulary) to (tokens,)."""
    return logits.gather(-1, tokens[:, None])[:, 0] - logits.logsumexp(-1)


def _check(
    student: torch.Tensor, teacher: torch.Tensor, sampled: torch.Tensor, mask: torch.Tensor
) -> None:
    if student.shape[-1] != teacher.shape[-1]:
        raise ValueError(
            f"a student of {student.shape[-1]} tokens and a teacher of {teacher.shape[-1]}:"
            " both need one tokenizer"
        )
    same_shape(student, teacher)
    same_shape(student[..., 0], sampled, mask)
