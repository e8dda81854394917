"""The upstream pretraining job: what it is told, and the marker by which it says it succeeded.

The stage writes the job file, the job its progress, its result and, last, the marker. A result
without a marker that agrees with its files is no result, whatever the exit code.
"""

from pathlib import Path
from typing import Annotated, Any

from pydantic import BaseModel, BeforeValidator, ConfigDict, PositiveInt, ValidationError

from posttrain import digest
from posttrain.evaluation.suites import Continuation
from posttrain.quantities import Share
from posttrain.store import write_durably
from posttrain.training.model import ModelConfig
from posttrain.training.optimizers import OptimizerConfig
from posttrain.training.schedules import ScheduleConfig

RESULT, PROGRESS, _MARKER = "result", "progress.jsonl", "done.json"


class Until(BaseModel):
    """The stop rule: the accuracy that the continuation suite must show, read `every` steps."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    suite: str
    at_least: Share
    every: PositiveInt = 20


class Steps(BaseModel):
    """How long to train: `at_most` steps, for which the schedule is laid out, or `until` a metric.

    The metric is read only where the schedule lets a run end: at the full learning rate small
    models score far below what they reach within the decay (on chains 0.1 against 0.95).
    """

    model_config = ConfigDict(extra="forbid", frozen=True)

    at_most: PositiveInt
    until: Until | None = None

    def reads(self, schedule: ScheduleConfig, done: int) -> bool:
        """Whether the metric is to be read after `done` steps."""
        if self.until is None or done % self.until.every or done >= self.at_most:
            return False
        return schedule.settling(done, self.at_most)

    def ended(self, done: int, reading: float | None) -> bool:
        """Whether `done` steps are all, `reading` being the metric after them if it was read."""
        reached = self.until is not None and reading is not None and reading >= self.until.at_least
        return reached or done >= self.at_most


def _steps(value: Any) -> Any:
    return {"at_most": value} if isinstance(value, int) else value


StepsField = Annotated[Steps, BeforeValidator(_steps)]
"""`800`, or `{at_most: 900, until: {suite: chains, at_least: 98%}}`."""


class Training(BaseModel):
    """What decides the result beside the data and the seed."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    model: ModelConfig
    steps: StepsField
    batch: PositiveInt
    optimizer: OptimizerConfig
    schedule: ScheduleConfig
    threads: PositiveInt
    save_every: PositiveInt


class Measure(BaseModel):
    """The suite of the stop rule, and the folder with its rows."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    suite: Continuation
    data: Path


class Job(BaseModel):
    """The job file. `work` keeps state, progress, result and marker."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    training: Training
    seed: int
    tokenizer: Path
    corpus: Path
    measure: Measure | None
    work: Path


class Marker(BaseModel):
    """Written last: the sha256 of every file of the result, and what the stage reports of it."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    files: dict[str, str]
    metrics: dict[str, float]
    facts: dict[str, Any]


def finish(work: Path, metrics: dict[str, float], facts: dict[str, Any]) -> None:
    """Declare the result in `work` complete."""
    marker = Marker(files=_files(work / RESULT), metrics=metrics, facts=facts)
    write_durably(work / _MARKER, marker.model_dump_json(indent=1))


def finished(work: Path) -> Marker | None:
    """The marker in `work`, if there is one and it agrees with the result."""
    path = work / _MARKER
    if not path.is_file():
        return None
    try:
        marker = Marker.model_validate_json(path.read_text(encoding="utf-8"))
    except ValidationError:
        return None
    return marker if marker.files and marker.files == _files(work / RESULT) else None


def _files(folder: Path) -> dict[str, str]:
    return {
        str(path.relative_to(folder)): digest.of_file(path)
        for path in sorted(folder.rglob("*"))
        if path.is_file()
    }
