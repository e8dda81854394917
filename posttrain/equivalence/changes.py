"""Which changes a conversion makes on purpose; all others are faults."""

from typing import Literal

from pydantic import BaseModel, ConfigDict, NonNegativeFloat, PositiveInt

Dtype = Literal["float32", "bfloat16", "float16"]

_EXACT = 1e-6
_ROUNDED = 5e-3


class Changes(BaseModel):
    """`dtype` is what floats are rounded to; `output_vocabulary` how many rows the head keeps.

    `most_kl` bounds the divergence from the source at any position, in nats: if not said, 1e-6,
    or 5e-3 where weights are rounded.
    """

    model_config = ConfigDict(extra="forbid", frozen=True)

    dtype: Dtype | None = None
    output_vocabulary: PositiveInt | None = None
    most_kl: NonNegativeFloat | None = None

    @property
    def bound(self) -> float:
        """The divergence allowed, in nats."""
        if self.most_kl is not None:
            return self.most_kl
        return _EXACT if self.dtype is None else _ROUNDED
