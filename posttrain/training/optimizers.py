"""The choice of optimizer: what a recipe may say, and one optimizer object built from it.

Every trainable parameter is updated by exactly one rule: hidden matrices by Muon where it is
asked for, the rest (all, without Muon) by AdamW or AdEMAMix. Nothing here imports torch until an
optimizer is built.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Self

from pydantic import BaseModel, ConfigDict, Field, PositiveFloat, PositiveInt, model_validator

if TYPE_CHECKING:
    import torch

_EMBEDDINGS = ("embed_tokens.weight", "lm_head.weight")


class MuonConfig(BaseModel):
    """Muon for hidden matrices; `iterations` of Newton-Schulz, `decay` decoupled."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    lr: PositiveFloat
    momentum: float = Field(default=0.9, ge=0, lt=1)
    iterations: PositiveInt = 4
    decay: float = Field(default=0.0, ge=0)


class AdamWConfig(BaseModel):
    """AdamW as torch implements it."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    lr: PositiveFloat
    betas: tuple[float, float] = (0.9, 0.999)
    epsilon: PositiveFloat = 1e-8
    decay: float = Field(default=0.0, ge=0)


class AdEMAMixConfig(BaseModel):
    """AdEMAMix; `warmup` is the number of steps over which alpha and beta3 reach their values."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    lr: PositiveFloat
    betas: tuple[float, float, float] = (0.9, 0.999, 0.9999)
    alpha: float = Field(default=8.0, ge=0)
    warmup: PositiveInt = 100_000
    epsilon: PositiveFloat = 1e-8
    decay: float = Field(default=0.1, ge=0)


class OptimizerConfig(BaseModel):
    """`{adamw: ...}`, `{ademamix: ...}`, or either of them with `muon`; `clip` bounds the norm."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    muon: MuonConfig | None = None
    adamw: AdamWConfig | None = None
    ademamix: AdEMAMixConfig | None = None
    clip: PositiveFloat = 1.0

    @model_validator(mode="after")
    def _one_rule_for_the_rest(self) -> Self:
        if (self.adamw is None) == (self.ademamix is None):
            raise ValueError(
                "an optimizer needs exactly one of adamw and ademamix (muon updates only the "
                "hidden matrices, the other one the rest)"
            )
        return self


class Optimizers:
    """Several torch optimizers used as one; each of their groups keeps its `peak` rate."""

    def __init__(self, parts: "Sequence[torch.optim.Optimizer]") -> None:
        self.parts = list(parts)
        for group in self.param_groups:
            group["peak"] = group["lr"]

    @property
    def param_groups(self) -> list[dict[str, Any]]:
        """The parts' groups as they are now: loading a state replaces them."""
        return [group for part in self.parts for group in part.param_groups]

    def zero_grad(self, set_to_none: bool = True) -> None:
        """Drop all gradients."""
        for part in self.parts:
            part.zero_grad(set_to_none=set_to_none)

    def step(self) -> None:
        """One update of every parameter."""
        for part in self.parts:
            part.step()

    def scale(self, factor: float) -> None:
        """Set every group's learning rate to `factor` times its peak."""
        for group in self.param_groups:
            group["lr"] = factor * group["peak"]

    def state_dict(self) -> dict[str, Any]:
        """The states of the parts, in order."""
        return {"parts": [part.state_dict() for part in self.parts]}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Restore what `state_dict` gave; ValueError if the parts differ in number."""
        if len(state["parts"]) != len(self.parts):
            raise ValueError(
                f"the training checkpoint has {len(state['parts'])} optimizers, the config "
                f"{len(self.parts)}; start the stage afresh"
            )
        for part, saved in zip(self.parts, state["parts"], strict=True):
            part.load_state_dict(saved)


def is_hidden_matrix(name: str, parameter: "torch.Tensor") -> bool:
    """Whether Muon applies: two-dimensional and neither embedding nor output head."""
    return parameter.ndim == 2 and not name.endswith(_EMBEDDINGS)


def build(
    named_parameters: "Iterable[tuple[str, torch.nn.Parameter]]", config: OptimizerConfig
) -> Optimizers:
    """The optimizer of `config` over all parameters that require a gradient."""
    hidden: list[torch.nn.Parameter] = []
    rest: list[torch.nn.Parameter] = []
    for name, parameter in named_parameters:
        if parameter.requires_grad:
            by_muon = config.muon is not None and is_hidden_matrix(name, parameter)
            (hidden if by_muon else rest).append(parameter)
    parts = [_rest(rest, config)]
    if config.muon is not None:
        from posttrain.training.muon import Muon

        parts.insert(0, Muon(hidden, **config.muon.model_dump()))
    return Optimizers(parts)


def _rest(
    parameters: "Sequence[torch.nn.Parameter]", config: OptimizerConfig
) -> "torch.optim.Optimizer":
    import torch

    from posttrain.training.ademamix import AdEMAMix

    if (adamw := config.adamw) is not None:
        return torch.optim.AdamW(
            parameters, lr=adamw.lr, betas=adamw.betas, eps=adamw.epsilon,
            weight_decay=adamw.decay, foreach=True,
        )  # fmt: skip
    assert config.ademamix is not None
    return AdEMAMix(parameters, **config.ademamix.model_dump())
