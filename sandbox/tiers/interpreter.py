"""A Python interpreter as programs will have it: the real binary, never a launcher's shim."""

import json
import os
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

from sandbox.tiers import NotOffered

_WITHIN = 30.0
_QUESTION = """
import json, os, sys
base = getattr(sys, "_base_executable", sys.executable)
virtual = sys.prefix != sys.base_prefix
print(json.dumps([sys.executable if virtual else os.path.realpath(base), virtual, sys.prefix,
    sys.base_prefix, list(sys.version_info[:2])]))
"""
_OLDEST = [3, 10]
_FRESH = ("/tmp", "/dev", "/proc", "/box", "/sandbox")


@dataclass(frozen=True)
class Interpreter:
    """Its binary, and the directory trees it is made of.

    That of a virtual environment must be called by its own path: from that it finds the packages.
    """

    binary: Path
    trees: tuple[Path, ...]
    virtual: bool = False


def own_interpreter() -> Interpreter:
    """That of this process, without its virtual environment."""
    name = f"python{sys.version_info[0]}.{sys.version_info[1]}"
    base = Path(sys.base_prefix).resolve()
    return Interpreter(Path(os.path.realpath(base / "bin" / name)), (base,))


def find_interpreter(path: Path | None) -> Interpreter:
    """The one at `path` (with its virtual environment, if it has one), or else our own."""
    found = own_interpreter() if path is None else _described(path)
    for tree in found.trees:
        if any(tree.is_relative_to(place) for place in _FRESH):
            raise NotOffered(
                f"interpreter in {tree}: programs have a {tree.parents[-2]} of their own; "
                "choose one elsewhere"
            )
    return found


def _described(path: Path) -> Interpreter:
    try:
        done = subprocess.run(
            [path, "-I", "-c", _QUESTION], capture_output=True, timeout=_WITHIN, check=True
        )
    except (OSError, subprocess.SubprocessError) as fault:
        raise NotOffered(f"interpreter {path}: {fault}; give the path of a Python binary") from None
    binary, virtual, prefix, base, version = json.loads(done.stdout)
    if version < _OLDEST:
        raise NotOffered(f"interpreter {path}: Python 3.10 or newer is needed")
    trees = dict.fromkeys(Path(os.path.realpath(tree)) for tree in (prefix, base))
    return Interpreter(Path(binary), tuple(trees), virtual)
