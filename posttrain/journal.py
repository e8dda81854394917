"""A run's journal: what happened, one JSON line an event, appended and never changed.

`events.jsonl` is written by the controller alone; `progress/<stage>.jsonl` by the stage that runs.
A line that a crash cut short is skipped on reading.
"""

import json
import os
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from posttrain.stages import Progress
from posttrain.store import Store, write_durably


class Journal:
    """The journal and log files of one run in a store."""

    def __init__(self, store: Store, run: str) -> None:
        self.run = run
        self._folder = store.root / "runs" / run
        for name in ("progress", "logs"):
            (self._folder / name).mkdir(parents=True, exist_ok=True)

    def log(self, stage: str) -> Path:
        """The file with all that `stage` printed."""
        return self._folder / "logs" / f"{stage}.log"

    def progress(self, stage: str) -> Path:
        """The file with `stage`'s signs of life."""
        return self._folder / "progress" / f"{stage}.jsonl"

    def record(self, event: str, stage: str = "", **fields: Any) -> None:
        """Append one event and make it durable."""
        append(self._folder / "events.jsonl", {"event": event, "stage": stage, **fields}, sync=True)

    def events(self) -> list[dict[str, Any]]:
        """All events so far, in order."""
        return lines(self._folder / "events.jsonl")

    def archive(self, plan: Mapping[str, Any]) -> None:
        """Keep the resolved plan that this run executes."""
        write_durably(self._folder / "plan.json", json.dumps(plan, indent=1))

    def archived(self) -> dict[str, Any]:
        """The plan last executed; ValueError if the run is unknown."""
        path = self._folder / "plan.json"
        if not path.is_file():
            raise ValueError(f"run {self.run!r} has not been started in this store")
        content: dict[str, Any] = json.loads(path.read_text())
        return content

    def latest(self, stage: str) -> dict[str, Any] | None:
        """The last sign of life of `stage` in its present attempt."""
        found = lines(self.progress(stage), tail=4096)
        return found[-1] if found else None

    def first_step(self, stage: str) -> float | None:
        """When (s since the epoch) the present attempt reported its first finished step."""
        signs = lines(self.progress(stage))
        return next((sign["time"] for sign in signs if sign["step"] > 0), None)


def report_to(path: Path, progress: Progress) -> None:
    """Append one sign of life."""
    append(
        path,
        {
            "step": progress.step, "steps": progress.steps, "phase": progress.phase,
            "metrics": dict(progress.metrics),
        },
    )  # fmt: skip


def append(path: Path, fields: Mapping[str, Any], *, sync: bool = False) -> None:
    """Append one JSON line in a single write, so that readers see whole lines."""
    line = json.dumps({"time": round(time.time(), 3), **fields}) + "\n"
    handle = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o644)
    try:
        os.write(handle, line.encode())
        if sync:
            os.fsync(handle)
    finally:
        os.close(handle)


def lines(path: Path, tail: int | None = None) -> list[dict[str, Any]]:
    """The JSON lines of a file, or those in its last `tail` bytes; broken lines are skipped."""
    if not path.is_file():
        return []
    with path.open("rb") as stream:
        if tail is not None:
            stream.seek(max(0, path.stat().st_size - tail))
        content = stream.read()
    found = []
    for line in content.splitlines():
        try:
            value = json.loads(line)
        except ValueError:
            continue
        if isinstance(value, dict):
            found.append(value)
    return found
