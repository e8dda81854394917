"""Packaged: prompts that ship in an installed package, frozen as they are there.

The package's version and the digest of its files are part of the key: another version is other
data.
"""

from collections.abc import Mapping
from typing import Any, Self

from pydantic import BaseModel, ConfigDict, model_validator

from posttrain.data import manifest
from posttrain.data.packaged.sources import SOURCES, Source
from posttrain.names import nearest
from posttrain.stages import Outcome, Progress, StageConfig, StageContext

VERSION = 1


class Config(StageConfig):
    """`package` names the package; all other keys are that source's own."""

    model_config = ConfigDict(extra="allow", frozen=True)

    package: str

    @model_validator(mode="after")
    def _check_parameters(self) -> Self:
        if self.package not in SOURCES:
            told = nearest(self.package, SOURCES)
            raise ValueError(f"no prompts are read of a package {self.package[:60]!r}; {told}")
        self.parameters()
        return self

    @classmethod
    def described_by(cls, raw: Mapping[str, Any]) -> type[BaseModel]:
        """What may be said of the package that `raw` names."""
        return SOURCES[raw["package"]].parameters

    @property
    def source(self) -> Source:
        """How the package's prompts are read."""
        return SOURCES[self.package]

    def parameters(self) -> Any:
        """The source's checked parameters."""
        return self.source.parameters.model_validate(self.model_extra or {})

    def digests(self) -> dict[str, str]:
        """Which package it is; ValueError with the command that installs it, if it is not there."""
        return self.source.installed().told()

    def declared_rows(self) -> dict[str, int]:
        """The rows asked for, where they are counted and not a share."""
        asked = self.parameters()
        counts = {"train": getattr(asked, "rows", 0), "holdout": getattr(asked, "holdout", 0)}
        return {name: count for name, count in counts.items() if count and type(count) is int}


def run(context: StageContext[Config]) -> Outcome:
    """Read or make the rows, and write each split."""
    config, total = context.config, sum(context.config.declared_rows().values())
    package, shards = config.source.installed(), config.source.shards()

    def report(done: int) -> None:
        context.report(Progress(done, max(done, total), phase="rows"))

    report(0)
    written = manifest.write(
        context.output, config.source.rows(context.seed, config.parameters()), report=report,
        licence=package.licence, owner=package.name, sources={"package": shards} if shards else {},
    )  # fmt: skip
    return Outcome(written.figures(), {"package": package.told()})
