"""xIELU with a hand-written backward pass: the library's function, in fewer passes over memory.

The function is transformers' `XIELUActivation` except between its `eps` (-1e-6) and 0, where the
library's gradient is not that of its formula; elsewhere values and gradients are tested equal.
"""

from collections.abc import Callable
from typing import Any

import torch
from torch import nn
from transformers.activations import XIELUActivation


class _XIELU(torch.autograd.Function):
    """y = beta x + positive max(x, 0)^2 + negative (expm1(min(x, 0)) - min(x, 0))."""

    @staticmethod
    def forward(
        ctx: Any, x: torch.Tensor, positive: torch.Tensor, negative: torch.Tensor, beta: float
    ) -> torch.Tensor:
        below = x.clamp(max=0)
        curve = torch.expm1(below)
        ctx.save_for_backward(x, below, curve, positive, negative)
        ctx.beta = beta
        above = x - below
        y = above.mul_(above).mul_(positive).add_(x, alpha=beta)
        return y.addcmul_(curve - below, negative)

    @staticmethod
    def backward(
        ctx: Any, *gradients: torch.Tensor
    ) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor, None]:
        (gradient,) = gradients
        x, below, curve, positive, negative = ctx.saved_tensors
        above = x - below
        slope = torch.mul(above, 2 * positive).addcmul_(curve, negative).add_(ctx.beta)
        over = torch.dot(gradient.flatten(), above.mul_(above).flatten())
        under = torch.dot(gradient.flatten(), (curve - below).flatten())
        return slope.mul_(gradient), over.reshape(1), under.reshape(1), None


def quicken(model: nn.Module) -> None:
    """Give every xIELU of `model` the faster implementation; parameters stay as they are."""
    for module in model.modules():
        if isinstance(module, XIELUActivation):
            module.forward = _forward.__get__(module)


def _forward(self: XIELUActivation, x: torch.Tensor) -> torch.Tensor:
    positive = nn.functional.softplus(self.alpha_p)
    negative = self.beta + nn.functional.softplus(self.alpha_n)
    apply: Callable[..., torch.Tensor] = _XIELU.apply
    return apply(x, positive, negative, self._beta_scalar)
