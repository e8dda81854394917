"""Convert: a checkpoint as a Hugging Face folder to release, compared with its source."""

from pydantic import Field, NonNegativeFloat, PositiveInt

from posttrain.equivalence.changes import Changes, Dtype
from posttrain.stages import Outcome, Progress, StageConfig, StageContext

VERSION = 2


class Config(StageConfig):
    """What is converted, and what may change by it: nothing, unless it is said.

    `dtype` rounds the weights; `output_vocabulary` keeps that many rows of the head, without those
    of ids that are never written. `most_kl` is the divergence from the source allowed, in nats.
    """

    source: str = Field(alias="from")
    dtype: Dtype | None = None
    output_vocabulary: PositiveInt | None = None
    most_kl: NonNegativeFloat | None = None

    def inputs(self) -> dict[str, str]:
        """The checkpoint."""
        return {"from": self.source}

    def changes(self) -> Changes:
        """As the equivalence gate takes them."""
        return Changes(
            dtype=self.dtype, output_vocabulary=self.output_vocabulary, most_kl=self.most_kl
        )


def run(context: StageContext[Config]) -> Outcome:
    """Write the folder, examine it, and commit it only if it is equivalent."""
    from posttrain.conversion.converting import convert

    context.report(Progress(0, 1, phase="convert"))
    checks, facts = convert(context.inputs["from"], context.output, context.config.changes())
    context.report(Progress(1, 1, phase="convert"))
    return Outcome({"checks": float(len(checks))}, facts)
