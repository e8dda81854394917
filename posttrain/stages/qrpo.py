"""QRPO: trains a checkpoint on its own scored completions, in one track or several.

Completions, scores and log-probabilities are artifacts of stages of their own: what differs
between tracks is who scored.
"""

import os
from collections.abc import Mapping
from typing import Annotated, Literal, Self

from pydantic import BaseModel, ConfigDict, Field, PositiveInt, model_validator

from posttrain.data.mixture import Mixture, Part, checked
from posttrain.names import Name
from posttrain.objectives.config import QRPOConfig
from posttrain.quantities import Share
from posttrain.stages import Outcome, Progress, StageConfig, StageContext
from posttrain.training.guards import StepsConfig

VERSION = 1


class TrackConfig(BaseModel):
    """Completions, who scored them, and the stage with their log-probabilities under `from`.

    Without a `reference` these are computed when training starts. `share` is that of the prompts;
    without it, tracks give in proportion to their prompts.
    """

    model_config = ConfigDict(extra="forbid", frozen=True)

    completions: Name
    scores: Name
    reference: Name | None = None
    share: Annotated[Share, Field(gt=0)] | None = None


class Config(StepsConfig, StageConfig):
    """A batch is of prompts; of each the best and the worst completion are trained on, or `all`.

    A completion that is unscored, cut, empty or longer than `length` with its prompt (without it,
    than the context) is not used: above the share `drop_at_most` the stage refuses.
    """

    source: str = Field(alias="from")
    tracks: dict[Name, TrackConfig] = Field(min_length=1)
    objective: QRPOConfig
    select: Literal["extremes", "all"] = "extremes"
    length: PositiveInt | None = None
    drop_at_most: Share = 0.0

    @model_validator(mode="after")
    def _whole(self) -> Self:
        checked(self.plan().parts)
        given = {track.reference is None for track in self.tracks.values()}
        if len(given) > 1:
            raise ValueError("all tracks have a reference stage, or none has")
        if self.refresh_every is not None and given == {False}:
            raise ValueError("a reference computed ahead stays what it is: remove refresh_every")
        return self

    def inputs(self) -> dict[str, str]:
        """The checkpoint to start from, and what each track is made of."""
        return {"from": self.source} | {
            f"{role}.{name}": node
            for name, track in self.tracks.items()
            for role, node in track.model_dump(exclude={"share"}, exclude_none=True).items()
        }

    def suites(self) -> tuple[str, ...]:
        """The suites measured before and after."""
        return self.watch

    def plan(self) -> Mixture:
        """`steps` batches of prompts."""
        parts = {name: Part(share=track.share) for name, track in self.tracks.items()}
        return Mixture(parts, "rows", self.on_exhausted, self.steps * self.batch, self.batch)

    def cores(self) -> int:
        """One per thread."""
        return self.threads


def run(context: StageContext[Config]) -> Outcome:
    """Train on the backend's engine, measure and write the checkpoint."""
    from posttrain.backends import profile

    # verl picks its platform when first imported.
    os.environ.update(profile(context.backend).environment)
    from posttrain.training import qrpo, tracks, watch
    from posttrain.training.policy import Policy
    from posttrain.training.preference import Settings

    config, start = context.config, context.inputs["from"]

    def report(step: int, steps: int, metrics: Mapping[str, float]) -> None:
        context.report(Progress(step, steps, metrics=metrics))

    policy = Policy.load(start.path, start.record.facts)
    asked = {name: tracks.of(context.inputs, name) for name in config.tracks}
    usable = tracks.Usable(config.length, config.select, config.drop_at_most)
    groups, known = tracks.read(asked, policy, usable)
    metrics, facts = qrpo.align(
        policy, groups, config.objective, Settings(config, config.plan(), context.seed), known,
        backend=context.backend, work=context.work, output=context.output, report=report,
    )  # fmt: skip
    folders = {name: context.inputs[f"suite.{name}"].path for name in context.suites}
    watched = watch.compare(
        start.path, start.record.facts, context.output, facts, context.suites, folders, context.seed
    )
    return Outcome(metrics | watched, facts)
