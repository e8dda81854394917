"""The objectives written out from their formulas in float64: probabilities, sums and logarithms.

Imports nothing of the product. Slow and plain on purpose: no trick that the product may use, and
autograd of these is what the product's gradients are held against.
"""

import math

import torch

Tensor = torch.Tensor


def softmax(logits: Tensor, temperature: float = 1.0) -> Tensor:
    """Probabilities of logits that are small enough to be exponentiated."""
    powers = torch.exp(logits.double() / temperature)
    return powers / powers.sum(-1, keepdim=True)


def kl(p: Tensor, q: Tensor) -> Tensor:
    """sum p ln(p / q)."""
    return (p * torch.log(p / q)).sum(-1)


def jsd(student: Tensor, teacher: Tensor, alpha: float) -> Tensor:
    """The generalised Jensen-Shannon divergence, which is 0 at alpha 0 and 1."""
    mixture = (1 - alpha) * student + alpha * teacher
    return (1 - alpha) * kl(student, mixture) + alpha * kl(teacher, mixture)


def divergence(student: Tensor, teacher: Tensor, alpha: float) -> Tensor:
    """Forward KL, reverse KL or in between the JSD."""
    ends = {0: kl(teacher, student), 1: kl(student, teacher)}
    return ends[int(alpha)] if alpha in ends else jsd(student, teacher, alpha)


def buckets(p: Tensor, indices: Tensor, tail: bool) -> Tensor:
    """Probabilities of `indices` and of the rest, or those of `indices` made to sum to 1."""
    kept = p.gather(-1, indices)
    mass = kept.sum(-1, keepdim=True)
    return torch.cat([kept, 1 - mass], -1) if tail else kept / mass


def sdpo(
    student: Tensor, teacher: Tensor, sampled: Tensor, mask: Tensor, *, mode: str, alpha: float,
    top_k: int = 1, tail: bool = True, temperature: float = 1.0, clip: float | None = None,
    old: Tensor | None = None,
) -> Tensor:  # fmt: skip
    """Token by token: the mean over the masked tokens of logits (rows, tokens, vocabulary)."""
    total, count = torch.zeros((), dtype=torch.float64), 0
    for row, column in mask.nonzero().tolist():
        s = softmax(student[row, column], temperature)
        q = softmax(teacher[row, column], temperature).detach()
        token = sampled[row, column]
        if mode == "sampled":
            value = torch.log(s[token] / q[token]).detach() * torch.log(s[token])
        elif mode == "full":
            value = divergence(s, q, alpha)
        else:
            likely = torch.argsort(s, descending=True)[:top_k]
            value = divergence(buckets(s, likely, tail), buckets(q, likely, tail), alpha)
        if old is not None and clip is not None:
            ratio = torch.log(s[token]).item() - old[row, column].item()
            value = value * min(math.exp(max(-20, min(20, ratio))), clip)
        total, count = total + value, count + 1
    return total / max(count, 1)


def sigmoid(x: Tensor) -> Tensor:
    """1 / (1 + e^-x)."""
    return 1 / (1 + torch.exp(-x))


def dpo(
    policy: Tensor, reference: Tensor, mask: Tensor, *, beta: float, normalized: bool = False,
    smoothing: float = 0.0,
) -> Tensor:  # fmt: skip
    """Loss of each pair; rows are the chosen completions, then the rejected ones."""
    ratios = []
    for row in range(len(mask)):
        picked = mask[row].nonzero().flatten()
        ratio = (policy[row, picked].double() - reference[row, picked].double()).sum()
        ratios.append(ratio / len(picked) if normalized else ratio)
    half = len(ratios) // 2
    margin = beta * (torch.stack(ratios[:half]) - torch.stack(ratios[half:]))
    right, wrong = torch.log(sigmoid(margin)), torch.log(sigmoid(-margin))
    return -(1 - smoothing) * right - smoothing * wrong


def quantile(reward: float, references: list[float]) -> float:
    """Share of the references that are no better."""
    return sum(each <= reward for each in references) / len(references)


def qrpo(ratio: Tensor, target: Tensor, beta: Tensor) -> Tensor:
    """(R - beta ln Z - beta ln(pi / pi_ref))^2 with Z = beta (e^(1/beta) - 1)."""
    return (target - beta * torch.log(beta * (torch.exp(1 / beta) - 1)) - beta * ratio) ** 2


def follow_up(policy: Tensor, hindsight: Tensor, mask: Tensor, first: int) -> Tensor:
    """Mean over completions of -sum(gain ln p) / tokens, the first tokens left out."""
    losses = []
    for row in range(len(mask)):
        picked = mask[row].nonzero().flatten()[first:]
        gain = (hindsight[row, picked] - policy[row, picked]).double().detach()
        losses.append(-(gain * policy[row, picked].double()).sum() / len(picked))
    return torch.stack(losses).mean()


def clipped_follow_up(
    policy: Tensor, old: Tensor, gain: Tensor, mask: Tensor, first: int, low: float, high: float
) -> Tensor:
    """Mean over completions of -mean min(r A, clip(r) A), A the centred gain."""
    losses = []
    for row in range(len(mask)):
        picked = mask[row].nonzero().flatten()[first:]
        advantage = gain[row, picked].double() - gain[row, picked].double().mean()
        total = torch.zeros((), dtype=torch.float64)
        for index, each in zip(picked, advantage, strict=True):
            ratio = torch.exp(policy[row, index].double() - old[row, index].double())
            bounded = min(max(ratio.item(), 1 - low), 1 + high)
            unclipped = ratio * each
            total = total + (unclipped if unclipped <= bounded * each else bounded * each)
        losses.append(-total / len(picked))
    return torch.stack(losses).mean()
