"""Whether training moves the weights at all.

Rates of 1e-6 vanish in the rounding of weights held in half precision: the gradient is large, and
the policy stays what it was. What is watched is a sample of every parameter.
"""

import torch
from torch.distributed.tensor import DTensor

_SAMPLE = 1024
_LEAST = 0.01


class Movement:
    """How much of a module's weights differs from what they were when this was made."""

    def __init__(self, module: torch.nn.Module) -> None:
        self._module = module
        self._before = [each.clone() for each in self._sample()]

    def share(self) -> float:
        """The share of the sampled weights that have changed since."""
        now = self._sample()
        moved = sum(int((old != new).sum()) for old, new in zip(self._before, now, strict=True))
        return moved / sum(each.numel() for each in now)

    def check(self, steps: int) -> None:
        """ValueError if hardly any weight moved in `steps` steps."""
        if (share := self.share()) < _LEAST:
            raise ValueError(
                f"{share:.2%} of the weights moved in {steps} steps: updates are lost in rounding; "
                "hold the weights in fp32 or raise the learning rate"
            )

    def _sample(self) -> list[torch.Tensor]:
        trained = (each for each in self._module.parameters() if each.requires_grad)
        local = (each.to_local() if isinstance(each, DTensor) else each for each in trained)
        return [each.detach().flatten()[:_SAMPLE] for each in local]
