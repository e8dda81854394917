"""Data: a seeded generator's rows, frozen as `train.jsonl` and, if asked, `holdout.jsonl`."""

import json
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, Self

from pydantic import BaseModel, ConfigDict, model_validator

from posttrain.data.generators import GENERATORS, Derived, Splits
from posttrain.stages import Outcome, Progress, StageConfig, StageContext

VERSION = 1


class Config(StageConfig):
    """`generate` names the generator; all other keys are that generator's own parameters."""

    model_config = ConfigDict(extra="allow", frozen=True)

    generate: str

    @model_validator(mode="after")
    def _check_parameters(self) -> Self:
        if self.generate not in GENERATORS:
            known = ", ".join(sorted(GENERATORS))
            raise ValueError(f"unknown generator {self.generate[:60]!r}; known: {known}")
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

    def parameters(self) -> Any:
        """The generator's checked parameters."""
        return GENERATORS[self.generate].parameters.model_validate(self.model_extra or {})


def run(context: StageContext[Config]) -> Outcome:
    """Generate, and write each split as JSON lines; a derived generator's figures are kept."""
    splits, figures = _generate(context)
    counts = {name: _write(context.output / f"{name}.jsonl", rows) for name, rows in splits.items()}
    total = sum(counts.values())
    context.report(Progress(total, total, phase="rows"))
    return Outcome({f"rows.{name}": float(count) for name, count in counts.items()} | dict(figures))


def _generate(context: StageContext[Config]) -> tuple[Splits, Mapping[str, float]]:
    generator, asked = GENERATORS[context.config.generate], context.config.parameters()
    if isinstance(generator, Derived):
        folders = {role: artifact.path for role, artifact in context.inputs.items()}
        return generator.make(context.seed, asked, folders)
    return generator.make(context.seed, asked), {}


def _write(path: Path, rows: Iterable[Mapping[str, Any]]) -> int:
    count = 0
    with path.open("w", encoding="utf-8") as lines:
        for row in rows:
            lines.write(json.dumps(row, ensure_ascii=False) + "\n")
            count += 1
    return count
