"""What a recipe says, typed. Every name in it is declared in it, and every key is known."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field

from posttrain.evaluation.suites import Suite
from posttrain.gates import Promotion
from posttrain.names import Name
from posttrain.recipe.document import Location
from posttrain.stages import StageConfig


class RewardService(BaseModel):
    """The reward service the controller starts for stages that need it, or the URL of one."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    verifiers: tuple[str, ...] = Field(min_length=1)
    workers: int = Field(default=1, ge=1, le=64)
    url: str | None = None


class Services(BaseModel):
    """Services a recipe relies on."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    rewards: RewardService | None = None


class Envelope(BaseModel):
    """The outermost keys. Entries of `data` and `stages` are checked against their own kinds."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    recipe: Name
    seed: int = Field(ge=0, lt=2**31)
    backend: Literal["cpu", "gpu"]
    data: dict[Name, dict[str, Any]] = Field(default_factory=dict)
    services: Services = Services()
    suites: dict[Name, Suite] = Field(default_factory=dict)
    stages: dict[Name, dict[str, Any]] = Field(min_length=1)
    promote: Promotion | None = None


KIND_OF_DATA = {"generate": "data", "files": "files", "check": "check"}
"""What an entry of `data` says first -> the kind of its stage."""


@dataclass(frozen=True)
class Stage:
    """One declared stage: its kind and its checked config."""

    kind: str
    config: StageConfig


@dataclass(frozen=True)
class Recipe:
    """A checked recipe. `where` gives `file:line` of a location, for messages."""

    name: str
    seed: int
    backend: str
    services: Services
    suites: Mapping[str, Any]
    stages: Mapping[str, Stage]
    promote: Promotion | None
    where: Callable[[Location], str]
