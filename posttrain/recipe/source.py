"""A recipe's text, with what it extends and what the command line changes, as plain values.

Each value keeps the place that decided it: `file:line`, or the `--set` that wrote it.
"""

import os
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from posttrain.recipe.document import Document, Location

_BYTES = 1 << 20
_NAME_LENGTH = 200


@dataclass
class Source:
    """Plain `values`, and for each location in them the place it was written."""

    values: dict[str, Any]
    places: dict[Location, str] = field(default_factory=dict)

    def where(self, location: Location) -> str:
        """The place of `location`, or of its nearest enclosing key."""
        for length in range(len(location), 0, -1):
            if place := self.places.get(location[:length]):
                return place
        return self.places.get((), "recipe")

    def forget(self, location: Location) -> None:
        """Drop the places at and below `location`, whose value is about to be replaced."""
        size = len(location)
        for known in [known for known in self.places if known[:size] == location]:
            del self.places[known]


def read(path: Path) -> Source:
    """One file merged into what it `extends`; ValueError, with its place, if it is no recipe."""
    return _read(path, str(path), ())


def override(source: Source, assignment: str) -> None:
    """Apply one `--set a.b=value`; the value is YAML. The schema checks the result."""
    name, equals, text = assignment.partition("=")
    keys = name.split(".")
    readable = name.isprintable() and len(name) <= _NAME_LENGTH
    place = f"--set {name}" if readable else f"--set {name[:_NAME_LENGTH]!a}"
    if not equals or not all(keys) or not readable:
        raise ValueError(f"{place}: write --set stage.key=value")
    target = source.values
    for depth, key in enumerate(keys[:-1], start=1):
        if key not in target:
            source.places[tuple(keys[:depth])] = place
        target = target.setdefault(key, {})
        if not isinstance(target, dict):
            raise ValueError(f"{place}: {'.'.join(keys[:depth])} holds no keys")
    document = Document(text, lambda line: place)
    target[keys[-1]] = document.read()
    source.forget(tuple(keys))
    source.places[tuple(keys)] = place


def _read(path: Path, blamed: str, children: tuple[str, ...]) -> Source:
    source = _parse(path, blamed)
    parent = source.values.pop("extends", None)
    if parent is None:
        return source
    place = source.where(("extends",))
    if not isinstance(parent, str):
        raise ValueError(f"{place}: extends names one recipe file")
    chain = (*children, os.path.realpath(path))
    if os.path.realpath(path.parent / parent) in chain:
        raise ValueError(f"{place}: extends {parent[:60]!r}, which extends this file in turn")
    base = _read(path.parent / parent, f"{place}: extends {parent[:60]!r}", chain)
    merge(base, base.values, source.values, ())
    base.places.update(source.places)
    return base


def _parse(path: Path, blamed: str) -> Source:
    document = Document(_text(path, blamed), lambda line: f"{path}:{line}")
    values = document.read()
    if not isinstance(values, dict):
        raise ValueError(f"{path}:1: a recipe is a map of keys; begin with `recipe: NAME`")
    return Source(values, {(): f"{path}:1", **document.places})


def _text(path: Path, blamed: str) -> str:
    try:
        with path.open("rb") as stream:
            content = stream.read(_BYTES + 1)
    except OSError as fault:
        raise ValueError(f"{blamed}: cannot be read ({fault.strerror})") from fault
    if len(content) > _BYTES:
        raise ValueError(f"{blamed}: is larger than {_BYTES >> 20} MiB, so it is no recipe")
    try:
        return content.decode("utf-8-sig")
    except UnicodeDecodeError as fault:
        raise ValueError(f"{blamed}: is not UTF-8 text") from fault


def merge(base: Source, into: dict[str, Any], change: dict[str, Any], at: Location) -> None:
    """Write `change` into `into`, which stands at `at` of `base`; replaced values lose places."""
    for key, value in change.items():
        if isinstance(value, dict) and isinstance(into.get(key), dict):
            merge(base, into[key], value, (*at, key))
        else:
            base.forget((*at, key))
            into[key] = value
