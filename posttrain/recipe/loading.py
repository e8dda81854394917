"""From a recipe file to a checked Recipe, or to one line per fault: place, what, what to do."""

import difflib
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from pydantic import BaseModel, ValidationError
from pydantic_core import ErrorDetails

from posttrain import stages
from posttrain.recipe.schema import Envelope, Location, Recipe, Stage
from posttrain.recipe.source import Source, override, read


def load(path: Path, assignments: Sequence[str] = ()) -> Recipe:
    """Read, override and check a recipe. ValueError has one line per fault, with file:line."""
    source = read(path)
    for assignment in assignments:
        override(source, assignment)
    envelope, faults = _checked(Envelope, source.values, (), source)
    declared: dict[str, Stage] = {}
    if envelope is not None:
        for location, kind, raw in _entries(envelope):
            stage, found = _stage(kind, raw, location, source)
            faults += found
            name = str(location[-1])
            if name in declared:
                faults.append(f"{source.where(location)}: {name!r} is declared twice")
            elif stage is not None:
                declared[name] = stage
    if faults:
        raise ValueError("\n".join(faults))
    assert envelope is not None
    return Recipe(
        name=envelope.recipe, seed=envelope.seed, backend=envelope.backend,
        services=envelope.services, suites=envelope.suites, stages=declared,
        promote=envelope.promote, where=source.where,
    )  # fmt: skip


def _entries(envelope: Envelope) -> Iterator[tuple[Location, object, dict[str, Any]]]:
    for name, raw in envelope.data.items():
        yield ("data", name), "data", raw
    for name, raw in envelope.stages.items():
        yield ("stages", name), raw.get("kind"), {k: v for k, v in raw.items() if k != "kind"}


def _stage(
    kind: object, raw: dict[str, Any], location: Location, source: Source
) -> tuple[Stage | None, list[str]]:
    if kind not in stages.KINDS:
        place = source.where((*location, "kind"))
        return None, [f"{place}: {_unknown('stage kind', str(kind), stages.KINDS)}"]
    config, faults = _checked(stages.module(str(kind)).Config, raw, location, source)
    return (Stage(str(kind), config) if config is not None else None), faults


def _checked(
    model: type[BaseModel], raw: Mapping[str, Any], location: Location, source: Source
) -> tuple[Any, list[str]]:
    try:
        return model.model_validate(raw), []
    except ValidationError as fault:
        lines = [_line(error, model, location, source) for error in fault.errors()]
        return None, list(dict.fromkeys(lines))


def _line(error: ErrorDetails, model: type[BaseModel], location: Location, source: Source) -> str:
    inner: Location = error["loc"]
    full = (*location, *_written(inner, source, location))
    name = ".".join(map(str, full)) or "recipe"
    place = source.where(full)
    if error["type"] == "extra_forbidden":
        known = _known_keys(model.model_json_schema(), inner[:-1])
        owner = ".".join(map(str, full[:-1])) or "the recipe"
        return f"{place}: {_unknown(f'key in {owner}', str(inner[-1]), known)}"
    if error["type"] == "missing":
        return f"{place}: {name} is missing; it has no default"
    message = error["msg"].removeprefix("Value error, ")
    return f"{place}: {name}: {message}{_given(error)}"


def _given(error: ErrorDetails) -> str:
    value = error.get("input")
    return f" (it is {value!r})" if isinstance(value, str | int | float | bool) else ""


def _written(inner: Location, source: Source, location: Location) -> Location:
    """Drop the steps pydantic adds for unions and tags: they are in no file."""
    kept: list[str | int] = []
    for step in inner:
        if (*location, *kept, step) in source.places or step is inner[-1]:
            kept.append(step)
    return tuple(kept)


def _unknown(what: str, given: str, known: Sequence[str]) -> str:
    near = difflib.get_close_matches(given, known, n=1)
    hint = f"did you mean {near[0]!r}?" if near else f"known: {', '.join(sorted(known))}"
    return f"unknown {what}: {given!r}; {hint}"


def _known_keys(schema: dict[str, Any], location: Location) -> list[str]:
    nodes = [schema]
    for step in location:
        nodes = [child for node in _alternatives(nodes, schema) for child in _children(node, step)]
    return [key for node in _alternatives(nodes, schema) for key in node.get("properties", {})]


def _alternatives(nodes: list[dict[str, Any]], schema: dict[str, Any]) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = []
    for node in nodes:
        if reference := node.get("$ref"):
            found += _alternatives([schema["$defs"][reference.rsplit("/", 1)[-1]]], schema)
        choices = [*node.get("anyOf", []), *node.get("oneOf", []), *node.get("allOf", [])]
        found += [node, *_alternatives(choices, schema)]
    return found


def _children(node: dict[str, Any], step: str | int) -> list[dict[str, Any]]:
    """Schemas one step down; a step that pydantic added for a union stays where it is."""
    if isinstance(step, int):
        child = node.get("items") or node.get("additionalProperties")
    else:
        child = node.get("properties", {}).get(step) or node.get("additionalProperties")
    return [child] if isinstance(child, dict) else [node]
