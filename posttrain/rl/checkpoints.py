"""Which of a run's checkpoints is complete: one pointer file, replaced atomically.

verl writes a checkpoint as a folder `global_step_N` of several parts (weights, optimizer, position
in the data, trajectories under way); a crash may leave any of them half-written. Only the folder
that the pointer names is ever read.
"""

import json
import shutil
from pathlib import Path

from posttrain.durable import synced, synced_tree

_POINTER = "latest.json"


def announce(checkpoints: Path, step: int) -> None:
    """Make the checkpoint of `step` the one to resume from, then remove older ones.

    All of it is on the disk before the pointer names it, and the pointer before others go.
    """
    synced_tree(checkpoints / f"global_step_{step}")
    draft = checkpoints / f"{_POINTER}.draft"
    draft.write_text(json.dumps({"step": step}))
    synced(draft)
    draft.rename(checkpoints / _POINTER)
    synced(checkpoints)
    for folder in checkpoints.glob("global_step_*"):
        if step_of(folder) < step:
            shutil.rmtree(folder)


def recover(checkpoints: Path) -> Path | None:
    """What `latest` says, with all that a crash left half-written removed."""
    found = latest(checkpoints)
    for folder in checkpoints.glob("global_step_*"):
        if folder != found:
            shutil.rmtree(folder)
    return found


def latest(checkpoints: Path) -> Path | None:
    """Folder of the newest complete checkpoint, or None."""
    pointer = checkpoints / _POINTER
    if not pointer.exists():
        return None
    return checkpoints / f"global_step_{json.loads(pointer.read_text())['step']}"


def step_of(checkpoint: Path | None) -> int:
    """Steps trained in a checkpoint folder; 0 for none."""
    return int(checkpoint.name.rpartition("_")[2]) if checkpoint else 0
