"""Stage kinds. Each is one module of this package, and all have the same shape:

    VERSION: int                                     raised when what the stage computes changes
    class Config(StageConfig)                        what a recipe may say of it
    def run(context: StageContext[Config]) -> Outcome

A stage is a function of its inputs, its config and its seed: it reads nothing else, writes its
result to `context.output` and its crash-proof progress to `context.work`. Importing a stage module
imports no torch, ray, verl or vllm, so that planning stays fast and works anywhere.
"""

import importlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from types import ModuleType
from typing import Any, ClassVar, Generic, Self, TypeVar

from pydantic import BaseModel, ConfigDict

from posttrain.data.mixture import Mixture
from posttrain.store import Artifact

DATA_KINDS = ("data", "files", "packaged", "check", "filter", "sensitivity")
KINDS = (
    *DATA_KINDS, "charter", "tokenizer", "adopt", "pretrain", "sft", "rl", "reference", "dpo",
    "qrpo", "sdpo", "followups", "select", "generate", "score", "calibrate", "convert", "evaluate",
    "release",
)  # fmt: skip


class StageConfig(BaseModel):
    """What every stage kind's config has in common: strict keys and the questions planning asks."""

    model_config = ConfigDict(extra="forbid", frozen=True, populate_by_name=True)

    UNKEYED: ClassVar[frozenset[str]] = frozenset()
    """Keys on which no bit of the result depends: they are no part of the node's key."""

    CONTINUED: ClassVar[frozenset[str]] = frozenset()
    """Keys that may change while the stage is unfinished: it goes on, and records the change."""

    @classmethod
    def described_by(cls, raw: Mapping[str, Any]) -> type[BaseModel]:
        """The model that knows all keys of `raw`: for messages about an unknown one."""
        return cls

    def inputs(self) -> dict[str, str]:
        """Role -> name of the node it comes from. Roles: "from", "tokenizer", "data.<name>".

        One that takes several checkpoints has a role "from.<name>" for each.
        """
        return {}

    def misfit(self, sources: "Mapping[str, StageConfig]") -> str | None:
        """Why it cannot work on the results of `sources`, by role, where configs tell; or None."""
        return None

    def unfit(self, backend: str) -> str | None:
        """Why it cannot run on `backend`, where its config tells; or None."""
        return None

    def lacking(self) -> str | None:
        """What it cannot run without and does not have yet, though it can be planned; or None."""
        return None

    def keeps(self) -> bool:
        """Whether its result has more checkpoints than one."""
        return False

    def spread(self, variants: Callable[[str], tuple[str, ...]]) -> Self:
        """This config with `variants` of a stage in its place, where it handles several stages."""
        return self

    def parts(self) -> "dict[str, StageConfig]":
        """Suffix -> config of each node this stage becomes: one, unless it handles several."""
        return {"": self}

    def suites(self) -> tuple[str, ...]:
        """Names of the recipe's suites that this stage measures; their data become inputs."""
        return ()

    def measures(self) -> tuple[str, ...]:
        """Names under which gates find its figures: those of the suites that it measures."""
        return ()

    def services(self) -> tuple[str, ...]:
        """Names of the recipe's services that must be up while this stage runs."""
        return ()

    def ahead(self, backend: str) -> object | None:
        """Begin, in the run's Ray session, what makes a later start of this stage short.

        Called once when a run starts; returns at once. The result is kept until the run ends.
        """
        return None

    def placed(self, name: str, recipe: Path) -> Self:
        """This config as that of entry `name` in a recipe file; it may read what lies beside it.

        ValueError if that cannot be read.
        """
        return self

    def digests(self) -> dict[str, str]:
        """Digests of what decides the result and stands in no config; they are part of the key.

        ValueError if they are not known yet.
        """
        return {}

    def declared_rows(self) -> dict[str, int]:
        """Rows of each split that the stage will make, where its config tells."""
        return {}

    def mixture(self) -> Mixture | None:
        """What the stage will read of its data; None if it is not drawn from a mixture."""
        return None

    def context_length(self) -> int | None:
        """Tokens of context of the checkpoint that the stage makes, where its config tells."""
        return None

    def cores(self) -> int:
        """CPU cores the stage keeps busy; the controller never hands out more than there are."""
        return 1


C = TypeVar("C", bound=StageConfig)


class ProcessLost(RuntimeError):
    """A process the stage relies on died or fell silent; another attempt may go on from there."""


@dataclass(frozen=True)
class Progress:
    """One sign of life of a stage: `step` of `steps` in `phase`, with the metrics at that step."""

    step: int
    steps: int
    phase: str = "train"
    metrics: Mapping[str, float] = field(default_factory=dict)


@dataclass(frozen=True)
class Outcome:
    """What a stage says of its finished work.

    `metrics` are figures to compare, `facts` what in truth ran (RoPE parameters as the model used
    them, library versions, optimised tokens, world size).
    """

    metrics: dict[str, float] = field(default_factory=dict)
    facts: dict[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class StageContext(Generic[C]):
    """All that a stage may read and where it may write.

    `output` is an empty folder: what `run` leaves there is committed as the artifact. `work`
    survives crashes and belongs to this stage and key alone: training checkpoints live there.
    """

    name: str
    config: C
    inputs: Mapping[str, Artifact]
    output: Path
    work: Path
    seed: int
    backend: str
    services: Mapping[str, str]
    suites: Mapping[str, Any]
    report: Callable[[Progress], None]


def module(kind: str) -> ModuleType:
    """The module of stage kind `kind`; ValueError names the known kinds."""
    if kind not in KINDS:
        raise ValueError(f"unknown stage kind {kind!r}; known kinds: {', '.join(KINDS)}")
    return importlib.import_module(f"posttrain.stages.{kind}")
