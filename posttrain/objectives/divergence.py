"""Divergences between two distributions over the same outcomes, given by their log-probabilities.

Outcomes lie along the last dimension. Source: GKD (arXiv 2306.13649) for the generalised JSD,
SDPO (arXiv 2601.20802) for the student's top k.
"""

import math

import torch

from posttrain.objectives.reduction import precise, same_shape

_LEAST = -1e4
"""Log-probability that stands for all below it: as good as zero, but 0 times it is no NaN."""

_CLOSEST = -1e-7
"""Largest log of the mass of given outcomes that still leaves something for the others."""


def kl(left: torch.Tensor, right: torch.Tensor) -> torch.Tensor:
    """KL(left || right) in nats: (..., outcomes) to (...)."""
    same_shape(left, right)
    left, right = (precise(each).clamp(min=_LEAST) for each in (left, right))
    return (left.exp() * (left - right)).sum(-1)


def generalized_jsd(student: torch.Tensor, teacher: torch.Tensor, alpha: float) -> torch.Tensor:
    """(1 - alpha) KL(student || M) + alpha KL(teacher || M), M = (1 - alpha) student + alpha
    teacher, for 0 < alpha < 1: (..., outcomes) to (...), at most ln 2.

    It tends to 0 at both ends: divided by alpha to KL(teacher || student), divided by 1 - alpha
    to KL(student || teacher).
    """
    assert 0 < alpha < 1
    student, teacher = precise(student), precise(teacher)
    mixture = torch.logaddexp(
        student.clamp(min=_LEAST) + math.log1p(-alpha), teacher.clamp(min=_LEAST) + math.log(alpha)
    )
    return (1 - alpha) * kl(student, mixture) + alpha * kl(teacher, mixture)


def divergence(student: torch.Tensor, teacher: torch.Tensor, alpha: float) -> torch.Tensor:
    """SDPO's choice (..., outcomes) to (...): forward KL(teacher || student) at alpha 0, reverse
    KL(student || teacher) at 1, in between the generalised JSD.
    """
    if alpha == 0:
        return kl(teacher, student)
    if alpha == 1:
        return kl(student, teacher)
    return generalized_jsd(student, teacher, alpha)


def top(logits: torch.Tensor, k: int) -> torch.Tensor:
    """Indices of the k largest: (..., vocabulary) to (..., k). ValueError if there are fewer."""
    if k > logits.shape[-1]:
        raise ValueError(
            f"top_k {k} of a vocabulary of {logits.shape[-1]}: choose at most {logits.shape[-1]}"
        )
    return logits.detach().topk(k, dim=-1).indices


def on_support(logits: torch.Tensor, indices: torch.Tensor, tail: bool) -> torch.Tensor:
    """Log-probabilities of tokens `indices` (..., k), and with `tail` of all others as one outcome.

    `logits` (..., vocabulary) to (..., k + 1), or (..., k) renormalised without `tail`. The others'
    mass is their own logsumexp: as 1 minus the rest it would lose its digits, and its gradient all
    sense, where the given tokens have nearly all of the mass.
    """
    logits = precise(logits)
    kept = logits.gather(-1, indices)
    if tail:
        nothing = torch.finfo(logits.dtype).min
        others = logits.scatter(-1, indices, nothing).logsumexp(-1, keepdim=True)
        kept = torch.cat([kept, others], dim=-1)
    return kept.log_softmax(-1)


def with_tail(log_probs: torch.Tensor) -> torch.Tensor:
    """Log-probabilities of some tokens, and of all others as one more outcome; no gradient.

    (..., k) to (..., k + 1), for a teacher of whom nothing else is at hand. The others have at
    least 1e-7, as in SDPO's reference implementation; in float32 the last digits of theirs are
    lost below about 1e-4.
    """
    log_probs = precise(log_probs.detach())
    mass = log_probs.logsumexp(-1, keepdim=True).clamp(max=_CLOSEST)
    return torch.cat([log_probs, log1mexp(mass)], dim=-1)


def log1mexp(values: torch.Tensor) -> torch.Tensor:
    """log(1 - exp(x)) of x < 0, exact to rounding (Maechler 2012, "Accurately computing ...")."""
    return torch.where(
        values > -math.log(2), torch.log(-torch.expm1(values)), torch.log1p(-torch.exp(values))
    )
