"""Runs of the `posttrain` command for tests: a small recipe, and its processes."""

import subprocess
import sys
from pathlib import Path

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
