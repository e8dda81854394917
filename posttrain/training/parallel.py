"""Megatron's parallelism: what a recipe may say of it, and verl's settings for it; no torch here.

It is an engine of its own: Ulysses is FSDP's way to share a row, context parallelism Megatron's.
Always holds: what can be known to fail before a rank starts is refused when planning.
"""

from collections.abc import Mapping
from typing import Any

from pydantic import BaseModel, ConfigDict, PositiveInt


class MegatronConfig(BaseModel):
    """`context` ranks share each row, `tensor` each layer's weights, `pipeline` has the layers.

    With `tensor` the ranks share the tokens between its layers too (Megatron's sequence
    parallelism). Each rank of `context` has two pieces of a row, one from its start and one from
    its end, so that all have as much to attend to.
    """

    model_config = ConfigDict(extra="forbid", frozen=True)

    context: PositiveInt = 1
    tensor: PositiveInt = 1
    pipeline: PositiveInt = 1

    @property
    def together(self) -> int:
        """Ranks that hold the model once."""
        return self.context * self.tensor * self.pipeline

    def misfit(self, ranks: int, length: int | None) -> str | None:
        """Why so many ranks, or rows of `length` tokens, cannot be shared in this way; or None."""
        if ranks % self.together:
            told = f"context {self.context} x tensor {self.tensor} x pipeline {self.pipeline}"
            return f"ranks {ranks} is no multiple of parallel ({told} = {self.together})"
        pieces = 2 * self.context
        if self.context > 1 and length is not None and length % pieces:
            return (
                f"context.length {length} does not divide into {pieces} equal pieces, two for each "
                f"of the {self.context} ranks of parallel.context"
            )
        return None

    def settings(self) -> Mapping[str, Any]:
        """Fields of verl's `McoreEngineConfig`; rows lie end to end, none is padded."""
        return {
            "strategy": "megatron", "dtype": "bfloat16",
            "context_parallel_size": self.context, "tensor_model_parallel_size": self.tensor,
            "pipeline_model_parallel_size": self.pipeline, "sequence_parallel": self.tensor > 1,
            "use_remove_padding": True, "use_dynamic_bsz": False, "micro_batch_size_per_gpu": 1,
        }  # fmt: skip
