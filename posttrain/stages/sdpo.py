"""SDPO: trains a checkpoint towards what it would say had it read feedback on its responses."""

import os
from collections.abc import Mapping
from pathlib import Path

from pydantic import Field

from posttrain.sdpo.config import SdpoConfig
from posttrain.stages import Outcome, Progress, StageConfig, StageContext, charter

VERSION = 2


class Config(SdpoConfig, StageConfig):
    """An SDPO run and the checkpoint it starts from."""

    source: str = Field(alias="from")

    def inputs(self) -> dict[str, str]:
        """The checkpoint to start from, the prompts, and the charter if the judge has one."""
        data = [self.data, *([self.anchor.data] if self.anchor else [])]
        return {"from": self.source, **{f"data.{name}": name for name in data}} | (
            self.judge.inputs()
        )

    def services(self) -> tuple[str, ...]:
        """Feedback comes from a service."""
        return ("rewards",)

    def cores(self) -> int:
        """One per thread."""
        return self.threads


def run(context: StageContext[Config]) -> Outcome:
    """Train on the backend's engine; write the checkpoint, and each response with its origin."""
    from posttrain.backends import profile

    # verl picks its platform when first imported.
    os.environ.update(profile(context.backend).environment)
    from posttrain.judging.opinions import ServiceJudge
    from posttrain.sdpo import training
    from posttrain.training.sft import Start

    config, start = context.config, context.inputs["from"]
    named = context.inputs.get("charter")
    judge = ServiceJudge(
        config.judge, charter.load(named) if named else None, context.services["rewards"],
        config.limits.patience,
    )  # fmt: skip

    def report(step: int, steps: int, metrics: Mapping[str, float]) -> None:
        context.report(Progress(step, steps, metrics=metrics))

    def prompts(name: str) -> Path:
        return context.inputs[f"data.{name}"].path / "train.jsonl"

    metrics, facts = training.train(
        Start(start.path, start.record.facts), prompts(config.data),
        prompts(config.anchor.data) if config.anchor else None, config,
        training.Asked(judge, judge.identity()), context.seed,
        backend=context.backend, work=context.work, output=context.output, report=report,
    )  # fmt: skip
    return Outcome(metrics, facts)
