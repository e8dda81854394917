"""Rotary position embedding: what a recipe may say, and what the live model uses.

The record of a model's RoPE is taken from its rotary module, never from an argument: a run of
the seed system trained with another scaling factor than it declared (facts.md section 4.3).
Comparison is by value.
"""

import hashlib
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from pydantic import BaseModel, ConfigDict, Field, PositiveFloat, PositiveInt

if TYPE_CHECKING:
    from transformers import PreTrainedModel

_KINDS = ("default", "llama3")


class Llama3Scaling(BaseModel):
    """Llama 3 frequency scaling: wavelengths beyond `original_length` are stretched by `factor`."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    factor: PositiveFloat
    original_length: PositiveInt
    low: PositiveFloat = 1.0
    high: PositiveFloat = 4.0


class RopeConfig(BaseModel):
    """The base `theta`, and optionally `llama3` scaling."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    theta: float = Field(gt=1)
    llama3: Llama3Scaling | None = None

    def parameters(self) -> dict[str, Any]:
        """As `rope_parameters` of a Hugging Face config."""
        if self.llama3 is None:
            return {"rope_type": "default", "rope_theta": self.theta}
        return {
            "rope_type": "llama3",
            "rope_theta": self.theta,
            "factor": self.llama3.factor,
            "low_freq_factor": self.llama3.low,
            "high_freq_factor": self.llama3.high,
            "original_max_position_embeddings": self.llama3.original_length,
        }


class ContextConfig(BaseModel):
    """Context `length` in tokens, and RoPE if it changes with it."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    length: PositiveInt
    rope: RopeConfig | None = None


def record(model: "PreTrainedModel") -> dict[str, Any]:
    """The RoPE that `model` applies: its parameters and the digest of its live frequencies."""
    rotary = _rotary(model)
    frequencies = rotary.inv_freq.detach().float().cpu().contiguous()
    return {
        "parameters": dict(sorted(model.config.rope_parameters.items())),
        "inv_freq_sha256": hashlib.sha256(frequencies.numpy().tobytes()).hexdigest(),
        "attention_scaling": float(rotary.attention_scaling),
    }


def check(model: "PreTrainedModel", expected: Mapping[str, Any]) -> None:
    """ValueError unless the live frequencies of `model` are those of `expected` (a record)."""
    found = record(model)
    for name in ("inv_freq_sha256", "attention_scaling"):
        if found[name] != expected[name]:
            raise ValueError(
                f"RoPE of the model differs from its record in {name}: recorded "
                f"{expected['parameters']} ({expected[name]}), the model applies "
                f"{found['parameters']} ({found[name]}); use the checkpoint's own config.json"
            )


def change(model: "PreTrainedModel", context: ContextConfig) -> None:
    """Give `model` the context length and, if stated, the RoPE of `context`, in place."""
    model.config.max_position_embeddings = context.length
    if context.rope is not None:
        model.config.rope_parameters = context.rope.parameters()
    rotary = _rotary(model)
    fresh = type(rotary)(config=model.config, device=rotary.inv_freq.device)
    model.get_submodule(model.base_model_prefix).rotary_emb = fresh


def _rotary(model: "PreTrainedModel") -> Any:
    rotary = getattr(model.get_submodule(model.base_model_prefix), "rotary_emb", None)
    kind = getattr(rotary, "rope_type", None)
    if rotary is None or kind not in _KINDS:
        raise ValueError(
            f"{type(model).__name__} has RoPE of kind {kind!r}; its frequencies can be recorded "
            f"for {', '.join(_KINDS)} only (others change with the input)"
        )
    return rotary
