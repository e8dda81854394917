"""Launchers start jobs that live outside the stage that asked for them, and adopt running ones.

A job has a folder. It ends by itself, writes its result there with a marker last, and is judged by
that marker alone: neither an exit code nor a scheduler's state says that it succeeded.
"""

from collections.abc import Sequence
from pathlib import Path
from typing import Protocol


class Job(Protocol):
    """A submitted job."""

    def running(self) -> bool:
        """Whether the job has not ended yet."""

    def cancel(self, grace: float = 10.0) -> None:
        """End the job: asked first, killed after `grace` seconds."""


class Launcher(Protocol):
    """Where jobs run: this machine, a Slurm site, a Ray cluster."""

    def submit(self, command: Sequence[str], folder: Path, log: Path) -> Job:
        """Start `command` with its output in `log`; its handle is kept in `folder`."""

    def adopt(self, folder: Path) -> Job | None:
        """The job that an earlier stage process left running in `folder`, if any."""


def launcher(name: str) -> Launcher:
    """The launcher called `name` in a recipe; ValueError names the known ones."""
    if name == "local":
        from posttrain.launchers.local import LocalLauncher

        return LocalLauncher()
    raise ValueError(f"unknown launcher {name!r}; known launchers: local")
