"""Random tensors from a seed, so that hypothesis searches and shrinks over seeds and sizes."""

from collections.abc import Callable
from typing import Any

import torch
from hypothesis import strategies as st

SEEDS = st.integers(0, 2**32 - 1)
ALPHAS = st.floats(0.02, 0.98)


def normal(seed: int, *shape: int, scale: float = 2.0, dtype: Any = torch.float64) -> torch.Tensor:
    """Independent normal numbers with standard deviation `scale`."""
    generator = torch.Generator().manual_seed(seed)
    return torch.randn(shape, generator=generator, dtype=torch.float64).to(dtype) * scale


def log_probs(seed: int, *shape: int) -> torch.Tensor:
    """Log-probabilities of tokens, float64."""
    return -normal(seed, *shape).abs()


def mask(seed: int, rows: int, tokens: int, least: int = 1) -> torch.Tensor:
    """Rows that begin with `least` or more true places and go on false."""
    generator = torch.Generator().manual_seed(seed)
    lengths = torch.randint(least, tokens + 1, (rows, 1), generator=generator)
    return torch.arange(tokens) < lengths


def gradient(value: Callable[[torch.Tensor], torch.Tensor], at: torch.Tensor) -> torch.Tensor:
    """Gradient of the scalar `value` at `at`."""
    at = at.detach().clone().requires_grad_()
    (found,) = torch.autograd.grad(value(at), at)
    return found
