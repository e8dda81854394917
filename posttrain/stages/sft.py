"""SFT: trains a checkpoint on dialogues; with `context`, to a longer context and another RoPE."""

import os
from collections.abc import Mapping
from typing import TYPE_CHECKING, ClassVar, Literal, Self

from pydantic import (
    BaseModel,
    ConfigDict,
    Field,
    PositiveFloat,
    PositiveInt,
    model_validator,
)

from posttrain.data.mixture import Mixture, OnExhausted, PartsField, Unit
from posttrain.data.packing import PackingConfig
from posttrain.stages import Outcome, ProcessLost, Progress, StageConfig, StageContext
from posttrain.training.optimizers import OptimizerConfig
from posttrain.training.parallel import MegatronConfig
from posttrain.training.rope import ContextConfig
from posttrain.training.schedules import ScheduleConfig, WarmupStableDecay

if TYPE_CHECKING:
    from posttrain.training.sft import Settings

VERSION = 3


class PrecisionConfig(BaseModel):
    """Type of forward and backward pass, and of the weights; the optimizer's state is as these.

    Not stated, the backend computes in fp32 (CPU) or bf16 (GPU), and weights stay as they are.
    """

    model_config = ConfigDict(extra="forbid", frozen=True)

    compute: Literal["fp32", "bf16"] | None = None
    weights: Literal["fp32", "bf16"] | None = None


class Config(StageConfig):
    """`data` is one name, or names with what each gives: `60%`, `2 epochs`, or both.

    Shares are of the tokens that the loss counts, or of rows. A `batch` is documents, or with
    `packing` bins of as many tokens as the context has. `ranks` processes train together, of which
    `sequence_parallel` share each row, or in Megatron as `parallel` says; `freeze` names parameters
    that stay as they are (regular expressions), `mask_tokens` special tokens that are never
    targets; `peak_flops` is what one rank's hardware can at most, a second. With `keep_every` the
    checkpoints after every so many steps are kept beside the last, for a `select` stage.
    """

    UNKEYED: ClassVar[frozenset[str]] = frozenset({"save_every", "peak_flops"})
    CONTINUED: ClassVar[frozenset[str]] = frozenset({"ranks", "sequence_parallel", "threads"})

    source: str = Field(alias="from")
    data: PartsField
    shares_of: Unit = "tokens"
    on_exhausted: OnExhausted = "repeat"
    steps: PositiveInt
    batch: PositiveInt = 32
    optimizer: OptimizerConfig
    schedule: ScheduleConfig = ScheduleConfig(wsd=WarmupStableDecay(warmup=0.05, decay=0.4))
    context: ContextConfig | None = None
    packing: PackingConfig | None = None
    precision: PrecisionConfig = PrecisionConfig()
    freeze: tuple[str, ...] = ()
    mask_tokens: tuple[str, ...] = ()
    ranks: PositiveInt = 1
    sequence_parallel: PositiveInt = 1
    parallel: MegatronConfig | None = None
    threads: PositiveInt = 1
    peak_flops: PositiveFloat | None = None
    save_every: PositiveInt = 50
    keep_every: PositiveInt | None = None

    @model_validator(mode="after")
    def _ranks_are_whole_groups(self) -> Self:
        if self.ranks % self.sequence_parallel:
            raise ValueError(
                f"ranks {self.ranks} is no multiple of sequence_parallel {self.sequence_parallel}"
            )
        return self

    @model_validator(mode="after")
    def _one_way_to_share_rows(self) -> Self:
        if self.parallel is None:
            return self
        if self.sequence_parallel > 1:
            raise ValueError(
                "sequence_parallel is of verl's FSDP engine and parallel of its Megatron engine: "
                "remove one of them"
            )
        if self.optimizer.adamw is None or self.optimizer.muon or self.precision.compute == "fp32":
            raise ValueError("parallel: Megatron trains with adamw alone, and computes in bf16")
        if told := self.parallel.misfit(self.ranks, self.context_length()):
            raise ValueError(told)
        return self

    @model_validator(mode="after")
    def _keeps_something(self) -> Self:
        if self.keep_every is not None and self.keep_every >= self.steps:
            raise ValueError(
                f"keep_every {self.keep_every} keeps nothing: steps is {self.steps}, and the last "
                "checkpoint is there anyway"
            )
        return self

    def inputs(self) -> dict[str, str]:
        """The checkpoint to start from and each data set."""
        return {"from": self.source, **{f"data.{name}": name for name in self.data}}

    def mixture(self) -> Mixture:
        """`steps` batches of rows, or with packing of bins."""
        return Mixture(
            self.data, self.shares_of, self.on_exhausted, self.steps * self.batch, self.batch,
            self.packing,
        )  # fmt: skip

    def context_length(self) -> int | None:
        """As stated; without it the checkpoint keeps its context."""
        return self.context.length if self.context else None

    def keeps(self) -> bool:
        """With `keep_every`."""
        return self.keep_every is not None

    def unfit(self, backend: str) -> str | None:
        """Megatron trains on GPUs alone."""
        if self.parallel is None or backend != "cpu":
            return None
        return (
            "parallel is Megatron's, which needs GPUs; on the cpu backend share rows with "
            "sequence_parallel"
        )

    def lacking(self) -> str | None:
        """Nothing starts ranks of verl's Megatron engine yet."""
        if self.parallel is None:
            return None
        return (
            "parallel is checked and planned, but only ranks of verl's FSDP engine can be started "
            "yet; train with sequence_parallel"
        )

    def cores(self) -> int:
        """One per thread of each rank."""
        return self.ranks * self.threads


def run(context: StageContext[Config]) -> Outcome:
    """Train on the backend's engine and write the checkpoint."""
    from posttrain.backends import profile

    # verl picks its platform when first imported.
    os.environ.update(profile(context.backend).environment)
    from posttrain.training import ranks, sft

    config, start = context.config, context.inputs["from"]
    assert config.lacking() is None, "a stage that lacks something was started"

    def report(step: int, steps: int, metrics: Mapping[str, float]) -> None:
        context.report(Progress(step, steps, metrics=metrics))

    try:
        metrics, facts = sft.finetune(
            sft.Start(start.path, start.record.facts),
            {name: context.inputs[f"data.{name}"].path / "train.jsonl" for name in config.data},
            _settings(config, context.seed),
            backend=context.backend, work=context.work, output=context.output, report=report,
        )  # fmt: skip
    except ranks.RankLost as lost:
        raise ProcessLost(f"{context.name}: {lost}") from lost
    return Outcome(metrics, facts)


def _settings(config: Config, seed: int) -> "Settings":
    from posttrain.training.sft import Settings

    peak = config.peak_flops and config.peak_flops * config.ranks
    return Settings(
        steps=config.steps, batch=config.batch, optimizer=config.optimizer,
        schedule=config.schedule, context=config.context, mixture=config.mixture(), seed=seed,
        threads=config.threads, save_every=config.save_every, packing=config.packing,
        ranks=config.ranks, sequence_parallel=config.sequence_parallel,
        compute=config.precision.compute, weights=config.precision.weights, freeze=config.freeze,
        mask_tokens=config.mask_tokens,
        peak_flops=peak, keep_every=config.keep_every,
    )  # fmt: skip
