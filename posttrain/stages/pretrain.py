"""Pretrain: an upstream job, started through a launcher and known only by what it commits.

The stage hands over a job file, relays the job's progress and judges it by its marker. A job that
outlived an earlier stage process is adopted, one that died continues from its training state.
"""

import json
import shutil
import sys
import time
from pathlib import Path
from typing import ClassVar, Self

from pydantic import PositiveFloat, PositiveInt, model_validator

from posttrain.evaluation.suites import Continuation
from posttrain.launchers import Job as Process
from posttrain.launchers import launcher
from posttrain.stages import Outcome, ProcessLost, Progress, StageConfig, StageContext
from posttrain.store import write_durably
from posttrain.training import jobs
from posttrain.training.jobs import StepsField
from posttrain.training.model import ModelConfig
from posttrain.training.optimizers import OptimizerConfig
from posttrain.training.schedules import ScheduleConfig, WarmupStableDecay

VERSION = 2

_POLL = 0.2
_LOG_TAIL = 600


class Config(StageConfig):
    """`silence` is how many seconds the job may show no progress before it is given up."""

    UNKEYED: ClassVar[frozenset[str]] = frozenset({"save_every", "silence"})

    launcher: str = "local"
    model: ModelConfig
    data: str
    tokenizer: str = "tokenizer"
    steps: StepsField
    batch: PositiveInt = 32
    optimizer: OptimizerConfig
    schedule: ScheduleConfig = ScheduleConfig(wsd=WarmupStableDecay(warmup=0.05, decay=0.4))
    threads: PositiveInt = 1
    save_every: PositiveInt = 50
    silence: PositiveFloat = 300.0

    @model_validator(mode="after")
    def _known_launcher(self) -> Self:
        launcher(self.launcher)
        return self

    def inputs(self) -> dict[str, str]:
        """The corpus and the tokenizer."""
        return {f"data.{self.data}": self.data, "tokenizer": self.tokenizer}

    def suites(self) -> tuple[str, ...]:
        """The suite of the stop rule."""
        return (self.steps.until.suite,) if self.steps.until else ()

    def context_length(self) -> int:
        """The model's."""
        return self.model.context

    def cores(self) -> int:
        """One per thread."""
        return self.threads


def run(context: StageContext[Config]) -> Outcome:
    """Submit or adopt the job, follow it to its end, and take its result over."""
    marker = jobs.finished(context.work)
    for begin in (_adopt, _submit):
        if marker is None and (process := begin(context)) is not None:
            try:
                _follow(process, context)
            finally:
                process.cancel()
            marker = jobs.finished(context.work)
    if marker is None:
        raise ProcessLost(
            f"the pretraining job of {context.name} ended without a valid marker; the end of its "
            f"log: {_tail(context.work / 'log')}"
        )
    for path in (context.work / jobs.RESULT).iterdir():
        shutil.move(path, context.output / path.name)
    return Outcome(marker.metrics, marker.facts)


def _adopt(context: StageContext[Config]) -> Process | None:
    """The job that an earlier stage process left running, if any."""
    return launcher(context.config.launcher).adopt(context.work)


def _submit(context: StageContext[Config]) -> Process:
    """A new job; it continues from the training state that an earlier one left."""
    path = context.work / "pretraining.json"
    write_durably(path, _job(context).model_dump_json(indent=1))
    command = [sys.executable, "-m", "posttrain.training.pretraining", str(path)]
    submit = launcher(context.config.launcher).submit
    return submit(command, context.work, context.work / "log")


def _job(context: StageContext[Config]) -> jobs.Job:
    config = context.config
    fields = {name: getattr(config, name) for name in jobs.Training.model_fields}
    return jobs.Job(
        training=jobs.Training(**fields), seed=context.seed,
        tokenizer=context.inputs["tokenizer"].path,
        corpus=context.inputs[f"data.{config.data}"].path / "train.jsonl",
        measure=_measure(context), work=context.work,
    )  # fmt: skip


def _measure(context: StageContext[Config]) -> jobs.Measure | None:
    """What the stop rule reads; ValueError if its suite is not one of continuations."""
    if (until := context.config.steps.until) is None:
        return None
    suite = context.suites[until.suite]
    if not isinstance(suite, Continuation):
        raise ValueError(
            f"{context.name} stops by suite {until.suite} of kind {suite.kind}; a base model can "
            "be measured on a continuation suite only"
        )
    return jobs.Measure(suite=suite, data=context.inputs[f"suite.{until.suite}"].path)


def _follow(process: Process, context: StageContext[Config]) -> None:
    """Relay progress until the job ends; ProcessLost if it falls silent."""
    path, position, heard = context.work / jobs.PROGRESS, 0, time.monotonic()
    running = True
    while running:
        running = process.running()  # Asked before reading, so that the last lines are relayed.
        position, lines = _lines_after(path, position)
        if lines:
            _relay(lines[-1], context)
            heard = time.monotonic()
        if time.monotonic() - heard > context.config.silence:
            raise ProcessLost(
                f"the pretraining job of {context.name} showed no progress for "
                f"{context.config.silence:g} s and was cancelled; its log is {path.parent / 'log'}"
            )
        time.sleep(_POLL if running else 0)


def _relay(line: str, context: StageContext[Config]) -> None:
    metrics = json.loads(line)
    step, steps = int(metrics.pop("step")), int(metrics.pop("steps"))
    context.report(Progress(step, steps, metrics=metrics))


def _lines_after(path: Path, position: int) -> tuple[int, list[str]]:
    """Whole lines of `path` from byte `position` on, and the position after them."""
    if not path.is_file():
        return position, []
    with path.open("rb") as stream:
        stream.seek(position)
        whole = stream.read().rpartition(b"\n")[0]
    if not whole:
        return position, []
    return position + len(whole) + 1, whole.decode().splitlines()


def _tail(log: Path) -> str:
    return log.read_text(errors="replace")[-_LOG_TAIL:].strip() if log.is_file() else "(no log)"
