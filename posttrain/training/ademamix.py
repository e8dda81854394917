"""AdEMAMix: Adam with a second, slow moving average of the gradient (facts.md section 8.3).

The slow average starts at zero and has no bias correction; the weights of both averages depend
on the step number alone.
"""

import math
from collections.abc import Callable, Iterable
from typing import Any

import torch


def mix_at(step: int, alpha: float, warmup: int) -> float:
    """The weight of the slow average at `step` (from 1): linear up to `alpha` at `warmup`."""
    return alpha if step >= warmup else alpha * step / warmup


def slow_decay_at(step: int, fast: float, slow: float, warmup: int) -> float:
    """The slow average's decay at `step` (from 1): its half-life grows linearly, `fast` to `slow`.

    The 1e-8 inside the logarithm is the original's; it makes the end overshoot slightly.
    """
    if step >= warmup:
        return slow
    share = step / warmup
    half_life = (1 - share) * _half_life(fast) + share * _half_life(slow)
    return float(math.pow(0.5, 1 / (half_life + 1)))


def _half_life(decay: float) -> float:
    return math.log(0.5) / math.log(decay + 1e-8) - 1


class AdEMAMix(torch.optim.Optimizer):
    """AdEMAMix with decoupled weight decay on every parameter it is given."""

    def __init__(
        self,
        parameters: Iterable[torch.nn.Parameter],
        lr: float,
        betas: tuple[float, float, float],
        alpha: float,
        warmup: int,
        epsilon: float,
        decay: float,
    ) -> None:
        defaults = {
            "lr": lr, "betas": tuple(betas), "alpha": alpha, "warmup": warmup,
            "epsilon": epsilon, "decay": decay, "step": 0,
        }  # fmt: skip
        super().__init__(parameters, defaults)

    @torch.no_grad()
    def step(self, closure: Callable[[], float] | None = None) -> None:  # type: ignore[override]
        """One update; a closure is not supported."""
        assert closure is None
        for group in self.param_groups:
            group["step"] += 1
            for parameter in group["params"]:
                if parameter.grad is not None:
                    self._update(parameter, parameter.grad, group)

    def _update(
        self, parameter: torch.Tensor, gradient: torch.Tensor, group: dict[str, Any]
    ) -> None:
        state = self.state[parameter]
        for name in ("fast", "slow", "square"):
            if name not in state:
                state[name] = torch.zeros_like(parameter)
        step, (beta1, beta2, beta3) = group["step"], group["betas"]
        slow = slow_decay_at(step, beta1, beta3, group["warmup"])
        state["fast"].lerp_(gradient, 1 - beta1)
        state["slow"].lerp_(gradient, 1 - slow)
        state["square"].mul_(beta2).addcmul_(gradient, gradient, value=1 - beta2)
        root = (state["square"].sqrt() / math.sqrt(1 - beta2**step)).add_(group["epsilon"])
        change = state["fast"] / (1 - beta1**step)
        change.add_(state["slow"], alpha=mix_at(step, group["alpha"], group["warmup"])).div_(root)
        change.add_(parameter, alpha=group["decay"])
        parameter.add_(change, alpha=-group["lr"])
