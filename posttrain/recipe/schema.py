"""What a recipe says, typed. Every name in it is declared in it, and every key is known."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal
from urllib.parse import urlsplit

from pydantic import BaseModel, ConfigDict, Field, ValidationInfo, field_validator

from posttrain.evaluation.suites import Suite
from posttrain.gates import Promotion
from posttrain.liveness import Bounds
from posttrain.names import Name, nearest
from posttrain.recipe.document import Location
from posttrain.simulation.measurements import Measured
from posttrain.stages import StageConfig

VERIFIERS = ("answer", "math", "constraints", "code", "judge", "critique", "rules")
"""Those that the reward service has built in; it is a program of its own, not imported here."""


class RewardService(BaseModel):
    """The reward service the controller starts for stages that need it, or the URL of one.

    Of one that is started, `verifiers` are built in or given as NAME=MODULE.
    """

    model_config = ConfigDict(extra="forbid", frozen=True)

    url: str | None = None  # First: it decides which verifiers there may be.
    verifiers: tuple[str, ...] = Field(min_length=1)
    workers: int = Field(default=1, ge=1, le=64)

    @field_validator("url")
    @classmethod
    def _leads_somewhere(cls, url: str | None) -> str | None:
        if url is not None and not _is_http(url):
            raise ValueError(f"must be http://HOST:PORT or https://HOST, is {url[:60]!r}")
        return url

    @field_validator("verifiers")
    @classmethod
    def _can_be_started(cls, names: tuple[str, ...], info: ValidationInfo) -> tuple[str, ...]:
        started = info.data.get("url", "unknown") is None
        for name in names:
            if started and name not in VERIFIERS and not all(name.partition("=")):
                raise ValueError(
                    f"no verifier {name[:60]!r} is built in, nor is that NAME=MODULE; "
                    f"{nearest(name, VERIFIERS)}"
                )
        return names


def _is_http(url: str) -> bool:
    try:
        parts = urlsplit(url)
    except ValueError:
        return False
    return parts.scheme in ("http", "https") and bool(parts.hostname)


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
    stalls: Bounds = Bounds()
    measured: dict[str, Measured] = Field(default_factory=dict)
    suites: dict[Name, Suite] = Field(default_factory=dict)
    stages: dict[Name, dict[str, Any]] = Field(min_length=1)
    promote: Promotion | None = None


KIND_OF_DATA = {
    "generate": "data", "files": "files", "package": "packaged", "check": "check",
    "charter": "charter",
}  # fmt: skip
"""What an entry of `data` says first -> the kind of its stage."""


@dataclass(frozen=True)
class Stage:
    """One declared stage: its kind and its checked config."""

    kind: str
    config: StageConfig


@dataclass(frozen=True)
class Recipe:
    """A checked recipe. `where` gives `file:line` of a location, for messages.

    Of a stage with variants, `stages` has these in its place.
    """

    name: str
    seed: int
    backend: str
    services: Services
    suites: Mapping[str, Any]
    stages: Mapping[str, Stage]
    promote: Promotion | None
    where: Callable[[Location], str]
    stalls: Bounds = field(default_factory=Bounds)
    measured: Mapping[str, Measured] = field(default_factory=dict)

    def variants(self, stage: str) -> tuple[str, ...]:
        """Names of the variants of `stage`, such as `rl.plain`; none if it has no variants."""
        return tuple(name for name in self.stages if name.startswith(f"{stage}."))
