"""DPO: trains a checkpoint to prefer the chosen side of pairs to the rejected one."""

import os
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

from pydantic import Field, PositiveInt, model_validator

from posttrain.data.mixture import Mixture, PartsField
from posttrain.names import Name
from posttrain.objectives.config import DPOConfig
from posttrain.quantities import Share
from posttrain.stages import Outcome, Progress, StageConfig, StageContext, charter
from posttrain.training.guards import OnlineConfig, StepsConfig

if TYPE_CHECKING:
    from posttrain.training.loop import Report
    from posttrain.training.policy import Policy

VERSION = 2

LIVE = "live"


class Config(StepsConfig, StageConfig):
    """`data` is one set of pairs, or several with what each gives, in rows.

    `reference` is the stage that computed the log-probabilities of the checkpoint this one starts
    from, or `live`: they are computed when training starts. A pair longer than `length` on a side
    (without it, than the context), with equal sides or an empty one is not trained on: up to the
    share `drop_at_most` they are left out and counted, above it the stage refuses.

    With `online`, `data` are prompts, and the pairs are made of the policy's own responses.
    """

    source: str = Field(alias="from")
    data: PartsField
    objective: DPOConfig
    reference: Name = LIVE
    length: PositiveInt | None = None
    drop_at_most: Share = 0.0
    online: OnlineConfig | None = None

    @model_validator(mode="after")
    def _refreshed_live(self) -> Self:
        if self.refresh_every is not None and self.reference != LIVE:
            raise ValueError(
                f"a reference computed ahead by {self.reference} stays what it is: remove "
                f"refresh_every or set reference: {LIVE}"
            )
        return self

    @model_validator(mode="after")
    def _online_alone(self) -> Self:
        idle = {"reference", "length", "drop_at_most"} & self.model_fields_set
        if self.online and (idle or len(self.data) > 1):
            told = f"has no {sorted(idle)[0]}" if idle else "takes one set of prompts"
            raise ValueError(f"DPO online makes its own pairs and {told}: see online")
        return self

    def inputs(self) -> dict[str, str]:
        """The checkpoint to start from, each set of pairs or the prompts, and what a stage or
        charter adds.
        """
        ahead = {} if self.reference == LIVE else {"reference": self.reference}
        judge = self.online.judge.inputs() if self.online else {}
        data = {f"data.{name}": name for name in self.data}
        return {"from": self.source, **data, **ahead, **judge}

    def services(self) -> tuple[str, ...]:
        """Online, the judge is a service."""
        return ("rewards",) if self.online else ()

    def suites(self) -> tuple[str, ...]:
        """The suites measured before and after."""
        return self.watch

    def mixture(self) -> Mixture:
        """`steps` batches of the pairs."""
        return Mixture(self.data, "rows", self.on_exhausted, self.steps * self.batch, self.batch)

    def cores(self) -> int:
        """One per thread."""
        return self.threads


def run(context: StageContext[Config]) -> Outcome:
    """Train on the backend's engine, measure and write the checkpoint."""
    from posttrain.backends import profile

    # verl picks its platform when first imported.
    os.environ.update(profile(context.backend).environment)
    from posttrain.training import watch
    from posttrain.training.policy import Policy

    start = context.inputs["from"]
    policy = Policy.load(start.path, start.record.facts)
    metrics, facts = (_online if context.config.online else _offline)(context, policy)
    folders = {name: context.inputs[f"suite.{name}"].path for name in context.suites}
    watched = watch.compare(
        start.path, start.record.facts, context.output, facts, context.suites, folders, context.seed
    )
    return Outcome(metrics | watched, facts)


def _offline(
    context: StageContext[Config], policy: "Policy"
) -> tuple[dict[str, float], dict[str, Any]]:
    from posttrain.training import dpo
    from posttrain.training.preference import Settings
    from posttrain.training.reference import Ahead

    config, ahead = context.config, context.inputs.get("reference")
    return dpo.align(
        policy, {name: _rows(context, name) for name in config.data},
        dpo.Limits(config.length, config.drop_at_most), config.objective,
        Settings(config, config.mixture(), context.seed),
        Ahead(ahead.path, ahead.record.facts) if ahead else None,
        backend=context.backend, work=context.work, output=context.output,
        report=_reported(context),
    )  # fmt: skip


def _online(
    context: StageContext[Config], policy: "Policy"
) -> tuple[dict[str, float], dict[str, Any]]:
    from posttrain.judging.opinions import ServiceJudge
    from posttrain.training import online

    config, named, asked = context.config, context.inputs.get("charter"), context.config.online
    assert asked is not None
    judge = ServiceJudge(
        asked.judge, charter.load(named) if named else None, context.services["rewards"],
        asked.patience,
    )  # fmt: skip
    identity = judge.identity()
    (prompts,) = config.data
    metrics, facts = online.align(
        policy, context.inputs["from"].path, _rows(context, prompts), config.objective, config,
        asked, judge, context.seed,
        backend=context.backend, work=context.work, output=context.output,
        report=_reported(context),
    )  # fmt: skip
    return metrics, facts | {"judge": identity}


def _rows(context: StageContext[Config], name: str) -> Path:
    return context.inputs[f"data.{name}"].path / "train.jsonl"


def _reported(context: StageContext[Config]) -> "Report":
    return lambda step, steps, metrics: context.report(Progress(step, steps, metrics=metrics))
