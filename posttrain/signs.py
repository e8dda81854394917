"""Signs of life in files: JSON lines, each appended in a single write and stamped with the time.

A stage that is made of parts has a folder `components` in its work folder, with a file for each:
what it is doing, and whom it waits for. Only the component itself writes there.
"""

import json
import os
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

COMPONENTS = "components"
"""Folder of the components' signs, in a stage's work folder."""

_TAIL = 1 << 16


class Component(NamedTuple):
    """A part of a running stage: the times (s since the epoch) of its signs and the last of them.

    `waits_for` names who is to make the next move; empty if that is the component itself.
    """

    name: str
    times: tuple[float, ...]
    doing: str
    waits_for: str


def note(work: Path, component: str, doing: str, waits_for: str = "") -> None:
    """Sign of life of a component of the stage whose work folder is `work`; once a second is ample.

    `waits_for` is another component, a service, or whatever is to move next.
    """
    folder = work / COMPONENTS
    folder.mkdir(exist_ok=True)
    append(folder / f"{component}.jsonl", {"doing": doing, "waits_for": waits_for})


def ended(work: Path, component: str) -> None:
    """The component is no more: it gives no signs, and nobody expects any."""
    (work / COMPONENTS / f"{component}.jsonl").unlink(missing_ok=True)


def components(work: Path) -> list[Component]:
    """The components that gave signs in the work folder of a stage, by name."""
    found = []
    for path in sorted((work / COMPONENTS).glob("*.jsonl")):
        signs = [sign for sign in lines(path, _TAIL) if {"time", "doing", "waits_for"} <= set(sign)]
        if signs:
            found.append(_component(path.stem, signs))
    return found


def _component(name: str, signs: Sequence[Mapping[str, Any]]) -> Component:
    times = tuple(float(sign["time"]) for sign in signs)
    return Component(name, times, str(signs[-1]["doing"]), str(signs[-1]["waits_for"]))


def append(path: Path, fields: Mapping[str, Any], *, sync: bool = False) -> None:
    """Append one JSON line in a single write, after whatever a crash may have cut short."""
    line = (json.dumps({"time": round(time.time(), 3), **fields}) + "\n").encode()
    handle = os.open(path, os.O_RDWR | os.O_APPEND | os.O_CREAT, 0o644)
    try:
        size = os.fstat(handle).st_size
        if size and os.pread(handle, 1, size - 1) != b"\n":
            line = b"\n" + line
        while line:  # Cut short by a full disk only; the next write says so.
            line = line[os.write(handle, line) :]
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
