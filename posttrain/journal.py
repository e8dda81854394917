"""A run's journal: what happened, one JSON line an event, appended and never changed.

`events.jsonl` is written by the controller alone; `progress/<stage>.jsonl` by the stage that runs.
A line that a crash cut short is skipped on reading, and never swallows the one after it.
"""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from pydantic import BaseModel, ConfigDict, ValidationError

from posttrain import names
from posttrain.gates import Promotion
from posttrain.liveness import Bounds
from posttrain.names import nearest
from posttrain.signs import append, lines
from posttrain.stages import Progress
from posttrain.store import Store, write_durably

_TAIL = 1 << 16
_SIGN = ("step", "steps", "phase", "metrics")


class PlannedStage(BaseModel):
    """What is kept of a node: enough to find its result and what it was made from."""

    model_config = ConfigDict(frozen=True)

    name: str
    kind: str
    key: str
    inputs: dict[str, str]


class Archive(BaseModel):
    """A resolved plan as a run keeps it."""

    model_config = ConfigDict(frozen=True)

    promote: Promotion | None
    stages: tuple[PlannedStage, ...]
    stalls: Bounds = Bounds()


class Journal:
    """The journal and log files of one run in a store; ValueError if `run` is no name."""

    def __init__(self, store: Store, run: str) -> None:
        self.run = names.checked(run)
        self._folder = store.root / "runs" / run
        self._work = store.root / "work" / run

    def log(self, stage: str) -> Path:
        """The file with all that `stage` (or a service) printed; ValueError if it is no name."""
        for part in stage.split("."):
            names.checked(part)
        return self._folder / "logs" / f"{stage}.log"

    def progress(self, stage: str) -> Path:
        """The file with `stage`'s signs of life."""
        return self._folder / "progress" / f"{stage}.jsonl"

    def work(self, stage: str) -> Path:
        """The folder with `stage`'s unfinished work, and the signs of its components."""
        return self._work / stage

    def record(self, event: str, stage: str = "", **fields: Any) -> None:
        """Append one event and make it durable."""
        append(self._folder / "events.jsonl", {"event": event, "stage": stage, **fields}, sync=True)

    def events(self) -> list[dict[str, Any]]:
        """All events so far, in order."""
        found = lines(self._folder / "events.jsonl")
        return [event for event in found if "event" in event and "stage" in event]

    def begin(self, plan: Mapping[str, Any]) -> None:
        """Make the run's folders and keep the resolved plan that it executes."""
        for name in ("progress", "logs"):
            (self._folder / name).mkdir(parents=True, exist_ok=True)
        write_durably(self._folder / "plan.json", json.dumps(plan, indent=1))

    def archived(self) -> Archive:
        """The plan last executed; ValueError if the run is unknown or its plan damaged."""
        path = self._folder / "plan.json"
        if not path.is_file():
            known = (each.parent.name for each in self._folder.parent.glob("*/plan.json"))
            raise ValueError(
                f"run {self.run!r} has not been started in this store; {nearest(self.run, known)}"
            )
        try:
            return Archive.model_validate_json(path.read_bytes())
        except ValidationError as fault:
            raise ValueError(
                f"{path} is damaged; remove it and run the recipe of {self.run} again"
            ) from fault

    def latest(self, stage: str) -> dict[str, Any] | None:
        """The last sign of life of `stage` in its present attempt."""
        found = self._signs(stage, _TAIL)
        return found[-1] if found else None

    def heard(self, stage: str) -> list[float]:
        """When (s since the epoch) `stage` gave its latest signs of life in this attempt."""
        return [float(sign["time"]) for sign in self._signs(stage, _TAIL)]

    def first_step(self, stage: str) -> float | None:
        """When (s since the epoch) the present attempt reported its first finished step."""
        return next((sign["time"] for sign in self._signs(stage) if sign["step"] > 0), None)

    def _signs(self, stage: str, tail: int | None = None) -> list[dict[str, Any]]:
        found = lines(self.progress(stage), tail)
        return [sign for sign in found if {"time", *_SIGN} <= sign.keys()]


def runs(store: Store) -> list[str]:
    """Names of the runs that a store knows."""
    return sorted(path.parent.name for path in (store.root / "runs").glob("*/plan.json"))


def report_to(path: Path, progress: Progress) -> None:
    """Append one sign of life."""
    append(path, vars(progress) | {"metrics": dict(progress.metrics)})
