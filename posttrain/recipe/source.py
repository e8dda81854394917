"""A recipe's text as plain values that remember the line each of them was written on."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from ruamel.yaml import YAML
from ruamel.yaml.comments import CommentedMap, CommentedSeq
from ruamel.yaml.constructor import DuplicateKeyError
from ruamel.yaml.error import MarkedYAMLError

from posttrain.recipe.schema import Location


@dataclass
class Source:
    """Plain `values`, and for each location in them the place it was written (`file:line`)."""

    values: dict[str, Any]
    places: dict[Location, str] = field(default_factory=dict)

    def where(self, location: Location) -> str:
        """The place of `location`, or of its nearest enclosing key."""
        for length in range(len(location), 0, -1):
            if place := self.places.get(location[:length]):
                return place
        return self.places.get((), "recipe")


def read(path: Path) -> Source:
    """Parse one file and what it `extends`; ValueError with file:line if it is no valid YAML."""
    source = _parse(path)
    parent = source.values.pop("extends", None)
    if parent is None:
        return source
    if not isinstance(parent, str):
        raise ValueError(f"{source.where(('extends',))}: extends names one recipe file")
    base = read(path.parent / parent)
    _merge(base.values, source.values)
    base.places.update(source.places)
    return base


def override(source: Source, assignment: str) -> None:
    """Apply one `--set a.b=value`; the value is YAML. The schema checks the result."""
    name, equals, text = assignment.partition("=")
    keys = name.split(".")
    if not equals or not all(keys):
        raise ValueError(f"--set {assignment}: write --set stage.key=value")
    target = source.values
    for depth, key in enumerate(keys[:-1]):
        target = target.setdefault(key, {})
        if not isinstance(target, dict):
            raise ValueError(f"--set {assignment}: {'.'.join(keys[: depth + 1])} holds no keys")
    target[keys[-1]] = _plain(YAML(typ="rt").load(text), (), "", {})
    source.places[tuple(keys)] = f"--set {name}"


def _parse(path: Path) -> Source:
    try:
        tree = YAML(typ="rt").load(path.read_text(encoding="utf-8"))
    except OSError as fault:
        raise ValueError(f"{path}: cannot be read ({fault.strerror})") from fault
    except UnicodeDecodeError as fault:
        raise ValueError(f"{path}: is not UTF-8 text") from fault
    except DuplicateKeyError as fault:
        raise ValueError(f"{_mark(path, fault)}: {_first_line(fault.problem)}") from fault
    except MarkedYAMLError as fault:
        raise ValueError(f"{_mark(path, fault)}: not valid YAML: {fault.problem}") from fault
    if not isinstance(tree, CommentedMap):
        raise ValueError(f"{path}: a recipe is a map of keys; begin with `recipe: NAME`")
    places: dict[Location, str] = {(): str(path)}
    return Source(_plain(tree, (), str(path), places), places)


def _mark(path: Path, fault: MarkedYAMLError) -> str:
    mark = fault.problem_mark or fault.context_mark
    return f"{path}:{mark.line + 1}" if mark else str(path)


def _first_line(text: str | None) -> str:
    return (text or "duplicate key").splitlines()[0]


def _plain(node: Any, at: Location, file: str, places: dict[Location, str]) -> Any:
    if isinstance(node, CommentedMap):
        for key in node:
            places[(*at, key)] = f"{file}:{node.lc.key(key)[0] + 1}"
        return {str(key): _plain(node[key], (*at, key), file, places) for key in node}
    if isinstance(node, CommentedSeq):
        for index in range(len(node)):
            places[(*at, index)] = f"{file}:{node.lc.item(index)[0] + 1}"
        return [_plain(item, (*at, index), file, places) for index, item in enumerate(node)]
    if isinstance(node, bool) or node is None:
        return node
    for kind in (int, float, str):
        if isinstance(node, kind):
            return kind(node)
    return str(node)


def _merge(base: dict[str, Any], change: Mapping[str, Any]) -> None:
    for key, value in change.items():
        if isinstance(value, dict) and isinstance(base.get(key), dict):
            _merge(base[key], value)
        else:
            base[key] = value
