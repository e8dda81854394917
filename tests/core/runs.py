"""Runs of the `posttrain` command for tests: a small recipe, and its processes."""

import contextlib
import io
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from unittest import mock

from posttrain import cli
from posttrain.journal import Journal

SMALL = """\
recipe: small
seed: 1
backend: cpu
data:
  corpus: {generate: tiny.corpus, documents: 64, holdout: 8}
  dialogues: {generate: tiny.dialogues, rows: 32}
stages:
  tokens:
    kind: tokenizer
    data: [corpus, dialogues]
    vocabulary: 600
"""


def write(folder: Path, text: str, name: str = "r.yaml") -> Path:
    path = folder / name
    path.write_text(text)
    return path


def command(folder: Path, *arguments: str) -> list[str]:
    return [sys.executable, "-m", "posttrain", *arguments, "--store", str(folder / "store")]


def posttrain(folder: Path, *arguments: str) -> "subprocess.CompletedProcess[str]":
    return subprocess.run(
        command(folder, *arguments), capture_output=True, text=True, timeout=120, check=False
    )


@dataclass(frozen=True)
class Ended:
    """What a command printed, and its exit code."""

    code: object
    out: str
    err: str


def ended(folder: Path, *arguments: str) -> Ended:
    """Run a command that starts no process, in this one."""
    out, err = io.StringIO(), io.StringIO()
    line = ["posttrain", *arguments, "--store", str(folder / "store")]
    with (
        mock.patch.object(sys, "argv", line),
        contextlib.redirect_stdout(out),
        contextlib.redirect_stderr(err),
    ):
        try:
            cli.main()
        except SystemExit as end:
            return Ended(end.code, out.getvalue(), err.getvalue())
    raise AssertionError("main() ends the process")


def worker_of(journal: Journal, stage: str) -> int | None:
    """The process id of the Ray worker that executes `stage`."""
    title = f"ray::{journal.run}/{stage}".encode()
    for entry in Path("/proc").iterdir():
        try:
            if entry.name.isdigit() and title in (entry / "cmdline").read_bytes():
                return int(entry.name)
        except OSError:
            continue
    return None
