"""SFT: trains a checkpoint on dialogues; with `context`, to a longer context and another RoPE."""

import os
from collections.abc import Mapping
from typing import Annotated, Any

from pydantic import BeforeValidator, Field, PositiveInt, field_validator

from posttrain.data.mixture import Mixture, OnExhausted, Part, PartField, Unit, checked
from posttrain.names import Name
from posttrain.stages import Outcome, Progress, StageConfig, StageContext
from posttrain.training.optimizers import OptimizerConfig
from posttrain.training.rope import ContextConfig
from posttrain.training.schedules import ScheduleConfig, WarmupStableDecay

VERSION = 2


def _mixture(value: Any) -> Any:
    return {value: 1.0} if isinstance(value, str) else value


class Config(StageConfig):
    """`data` is one name, or names with what each gives: `60%`, `2 epochs`, or both.

    Shares are of the tokens that the loss counts, or of rows.
    """

    source: str = Field(alias="from")
    data: Annotated[dict[Name, PartField], BeforeValidator(_mixture), Field(min_length=1)]
    shares_of: Unit = "tokens"
    on_exhausted: OnExhausted = "repeat"
    steps: PositiveInt
    batch: PositiveInt = 32
    optimizer: OptimizerConfig
    schedule: ScheduleConfig = ScheduleConfig(wsd=WarmupStableDecay(warmup=0.05, decay=0.4))
    context: ContextConfig | None = None
    threads: PositiveInt = 1
    save_every: PositiveInt = 50

    @field_validator("data")
    @classmethod
    def _whole(cls, parts: dict[str, Part]) -> dict[str, Part]:
        checked(parts)
        return parts

    def inputs(self) -> dict[str, str]:
        """The checkpoint to start from and each data set."""
        return {"from": self.source, **{f"data.{name}": name for name in self.data}}

    def mixture(self) -> Mixture:
        """`steps` batches of the data."""
        return Mixture(
            self.data, self.shares_of, self.on_exhausted, self.steps * self.batch, self.batch
        )

    def cores(self) -> int:
        """One per thread."""
        return self.threads


def run(context: StageContext[Config]) -> Outcome:
    """Train on the backend's engine and write the checkpoint."""
    from posttrain.backends import profile

    # verl picks its platform when first imported.
    os.environ.update(profile(context.backend).environment)
    from posttrain.training import sft

    config, start = context.config, context.inputs["from"]

    def report(step: int, steps: int, metrics: Mapping[str, float]) -> None:
        context.report(Progress(step, steps, metrics=metrics))

    metrics, facts = sft.finetune(
        sft.Start(start.path, start.record.facts),
        {name: context.inputs[f"data.{name}"].path / "train.jsonl" for name in config.data},
        sft.Settings(
            steps=config.steps, batch=config.batch, optimizer=config.optimizer,
            schedule=config.schedule, context=config.context, mixture=config.mixture(),
            seed=context.seed, threads=config.threads, save_every=config.save_every,
        ),
        backend=context.backend, work=context.work, output=context.output, report=report,
    )  # fmt: skip
    return Outcome(metrics, facts)
