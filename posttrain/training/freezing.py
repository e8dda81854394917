"""Parts of a model that training must leave as they are: chosen by name, and proved afterwards."""

import re
from collections.abc import Mapping, Sequence

import torch
from transformers import PreTrainedModel


def freeze(model: PreTrainedModel, patterns: Sequence[str]) -> dict[str, torch.Tensor]:
    """Exclude parameters whose whole name matches a regular expression; returns copies of them.

    ValueError for a pattern that matches nothing, or if nothing is left to train.
    """
    named = dict(model.named_parameters())
    for pattern in patterns:
        if not any(re.fullmatch(pattern, name) for name in named):
            raise ValueError(
                f"freeze: {pattern!r} matches no parameter; one is {next(iter(named))}"
            )
    frozen = {n for n in named if any(re.fullmatch(pattern, n) for pattern in patterns)}
    if len(frozen) == len(named):
        raise ValueError("freeze: every parameter matches, and nothing is left to train")
    for name in frozen:
        named[name].requires_grad_(requires_grad=False)
    return {name: named[name].detach().clone() for name in frozen}


def check(model: PreTrainedModel, before: Mapping[str, torch.Tensor]) -> None:
    """RuntimeError unless every parameter in `before` is bit for bit what it was."""
    named = dict(model.named_parameters())
    for name, value in before.items():
        if not torch.equal(named[name].detach(), value):
            raise RuntimeError(f"{name} was frozen, and training changed it")
