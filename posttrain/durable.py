"""What is on disk when a call returns, whatever happens to the machine next."""

import os
from pathlib import Path


def synced(path: Path) -> None:
    """Force a file's bytes, or the names in a folder, to disk."""
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def synced_tree(folder: Path) -> None:
    """The same for `folder` and all that is in it."""
    for path in sorted(folder.rglob("*"), reverse=True):
        synced(path)
    synced(folder)
