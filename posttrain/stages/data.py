"""Data: a seeded generator's rows, frozen as `train.jsonl` and, if asked, `holdout.jsonl`."""

from collections.abc import Mapping
from typing import Any, Self

from pydantic import BaseModel, ConfigDict, model_validator

from posttrain.data import manifest
from posttrain.data.generators import GENERATORS, Derived, Splits
from posttrain.names import nearest
from posttrain.stages import Outcome, Progress, StageConfig, StageContext
from posttrain.stages.files import tokenized

VERSION = 3


class Config(StageConfig):
    """`generate` names the generator; all other keys are that generator's own parameters."""

    model_config = ConfigDict(extra="allow", frozen=True)

    generate: str

    @model_validator(mode="after")
    def _check_parameters(self) -> Self:
        if self.generate not in GENERATORS:
            told = nearest(self.generate, GENERATORS)
            raise ValueError(f"unknown generator {self.generate[:60]!r}; {told}")
        self.parameters()
        return self

    @classmethod
    def described_by(cls, raw: Mapping[str, Any]) -> type[BaseModel]:
        """The parameters of the generator that `raw` names."""
        return GENERATORS[raw["generate"]].parameters

    def inputs(self) -> dict[str, str]:
        """What the generator reads: nothing, or the data and the tokenizer its parameters name."""
        derived = isinstance(GENERATORS[self.generate], Derived)
        return dict(self.parameters().inputs()) if derived else {}

    def declared_rows(self) -> dict[str, int]:
        """The rows asked for; what is made of other data tells only when it is there."""
        asked = self.parameters()
        if isinstance(GENERATORS[self.generate], Derived):
            return {}
        train = getattr(asked, "rows", getattr(asked, "documents", 0))
        counts = {"train": train, "holdout": getattr(asked, "holdout", 0)}
        return {name: count for name, count in counts.items() if count}

    def parameters(self) -> Any:
        """The generator's checked parameters."""
        return GENERATORS[self.generate].parameters.model_validate(self.model_extra or {})


def run(context: StageContext[Config]) -> Outcome:
    """Generate, and write each split as JSON lines; a derived generator's figures are kept.

    Where the generator reads a tokenizer, the rows' tokens are counted with it.
    """
    splits, figures = _generate(context)
    total = sum(context.config.declared_rows().values())

    def report(rows: int) -> None:
        context.report(Progress(rows, max(rows, total), phase="rows"))

    written = manifest.write(context.output, splits, chat=tokenized(context), report=report)
    return Outcome(written.figures() | dict(figures))


def _generate(context: StageContext[Config]) -> tuple[Splits, Mapping[str, float]]:
    generator, asked = GENERATORS[context.config.generate], context.config.parameters()
    if isinstance(generator, Derived):
        folders = {role: artifact.path for role, artifact in context.inputs.items()}
        return generator.make(context.seed, asked, folders)
    return generator.make(context.seed, asked), {}
