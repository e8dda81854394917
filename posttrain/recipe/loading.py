"""From a recipe file to a checked Recipe, or to one line per fault: place, what, what to do."""

import math
import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from pydantic import BaseModel, ValidationError
from pydantic_core import ErrorDetails

from posttrain import stages
from posttrain.names import near, nearest
from posttrain.recipe import variants
from posttrain.recipe.document import Location
from posttrain.recipe.schema import KIND_OF_DATA, Envelope, Recipe, Stage
from posttrain.recipe.source import Source, override, read
from posttrain.stages import StageConfig

QUOTE = "'"

_WANTED = {
    "a map of keys is wanted": ("model_type", "dict_type", "model_attributes_type"),
    "a list is wanted": ("list_type", "tuple_type"),
    "text is wanted": ("string_type",),
    "a whole number is wanted": ("int_type", "int_parsing", "int_from_float", "int_parsing_size"),
    "a number is wanted": ("float_type", "float_parsing"),
    "true or false is wanted": ("bool_type", "bool_parsing"),
}
"""What is said -> pydantic's error types that mean it."""


def load(path: Path, assignments: Sequence[str] = ()) -> Recipe:
    """Read, override and check a recipe. ValueError has one line per fault, with file:line."""
    source = read(path)
    for assignment in assignments:
        override(source, assignment)
    envelope, faults = checked(Envelope, source.values, (), source)
    declared: dict[str, Stage] = {}
    for location, kind, raw in _entries(source.values):
        made, found = _stages(kind, raw, location, source, path)
        faults += found
        if str(location[-1]) in declared:
            faults.append(f"{source.where(location)}: {location[-1]!r} is declared twice")
        else:
            declared |= made
    if faults:
        raise ValueError("\n".join(faults))
    assert envelope is not None
    return Recipe(
        name=envelope.recipe, seed=envelope.seed, backend=envelope.backend,
        services=envelope.services, suites=envelope.suites, stages=declared,
        promote=envelope.promote, where=source.where, stalls=envelope.stalls,
        measured=envelope.measured,
    )  # fmt: skip


def _entries(values: Mapping[str, Any]) -> Iterator[tuple[Location, object, dict[str, Any]]]:
    """Location, kind and config of each entry that is a map; the envelope tells of the others."""
    for block in ("data", "stages"):
        entries = values.get(block)
        for name, raw in entries.items() if isinstance(entries, dict) else ():
            if isinstance(raw, dict) and block == "data":
                yield (block, name), _kind_of_data(raw), raw
            elif isinstance(raw, dict):
                yield (block, name), raw.get("kind"), {k: raw[k] for k in raw if k != "kind"}


def _kind_of_data(raw: Mapping[str, Any]) -> str | None:
    return next((kind for key, kind in KIND_OF_DATA.items() if key in raw), None)


def _stages(
    kind: object, raw: dict[str, Any], location: Location, source: Source, recipe: Path
) -> tuple[dict[str, Stage], list[str]]:
    """The stage at `location`, or its variants; and a line for each fault."""
    written, faults = ({location: raw}, list[str]())
    if location[0] == "stages":
        written, faults = variants.expanded(location, raw, source)
    made: dict[str, Stage] = {}
    found: dict[Location, list[str]] = {}
    for at, values in written.items():
        stage, found[at] = _stage(kind, values, at, source, recipe)
        if stage is not None:
            made[str(at[-1])] = stage
    faults += variants.once(found, location, source)
    if twins := variants.alike({name: stage.config for name, stage in made.items()}):
        place = source.where((*location, variants.KEY))
        faults.append(f"{place}: {' and '.join(twins)} are the same; change or remove one")
    return made, faults


def _stage(
    kind: object, raw: dict[str, Any], location: Location, source: Source, recipe: Path
) -> tuple[Stage | None, list[str]]:
    place = source.where((*location, "kind"))
    if kind is None and location[0] == "data":
        return None, [f"{place}: {_dotted(location)} has none of {', '.join(KIND_OF_DATA)}"]
    if kind is None:
        return None, [f"{place}: {'.'.join(map(str, location))}.kind is missing; it has no default"]
    if kind not in stages.KINDS:
        return None, [f"{place}: {_unknown('stage kind', str(kind), stages.KINDS)}"]
    config, faults = checked(stages.module(str(kind)).Config, raw, location, source)
    if config is None:
        return None, faults
    try:
        return Stage(str(kind), config.placed(str(location[-1]), recipe)), faults
    except ValueError as fault:
        return None, [*faults, f"{place}: {fault}"]


def checked(
    model: type[BaseModel], raw: Mapping[str, Any], location: Location, source: Source
) -> tuple[Any, list[str]]:
    """The model made of what stands at `location`, or one line for each fault of it."""
    try:
        value = model.model_validate(raw)
    except ValidationError as fault:
        return None, list(_lines(fault, model, raw, location, source))
    endless = [(*location, *at) for at in _endless(value.model_dump(by_alias=True), ())]
    return value, [f"{source.where(at)}: {_dotted(at)}: must be finite" for at in endless]


def _endless(value: object, at: Location) -> Iterator[Location]:
    """Where infinity or NaN was read from text such as `inf`, which no key could tell apart."""
    if isinstance(value, float) and not math.isfinite(value):
        yield at
    elif isinstance(value, Mapping):
        for key, inner in value.items():
            yield from _endless(inner, (*at, key))
    elif isinstance(value, list | tuple):
        for index, inner in enumerate(value):
            yield from _endless(inner, (*at, index))


def _lines(
    fault: ValidationError,
    model: type[BaseModel],
    raw: Mapping[str, Any],
    location: Location,
    source: Source,
) -> Iterator[str]:
    """One line for each place in the recipe; what the branches of a union say of it is joined."""
    told: dict[Location, list[str]] = {}
    absent, misspelt = set[Location](), set[Location]()
    for error in fault.errors(include_url=False):
        if _enough(error):
            continue
        written = _written(error, raw)
        full = (*location, *written)
        if error["type"] == "extra_forbidden":
            known = _known_keys(_describing(model, raw), written[:-1])
            message = _unknown(f"key in {_dotted(full[:-1])}", str(full[-1]), known)
            misspelt |= {(*full[:-1], key) for key in near(str(full[-1]), known)}
        else:
            message = _message(error, _dotted(full))
        if error["type"] == "missing":
            absent.add(full)
        told.setdefault(full, []).append(message)
    for full, messages in told.items():
        if full in absent & misspelt:
            continue  # It is there under another name, and that is told.
        first, *others = dict.fromkeys(messages)
        more = [other.removeprefix(f"{_dotted(full)}: ") for other in others]
        yield f"{source.where(full)}: {', or '.join([first, *more])}"


def _enough(error: ErrorDetails) -> bool:
    """Whether it says that too few are there only because of a fault told of one of them."""
    least = error.get("ctx", {}).get("min_length", 0)
    given = error.get("input")
    return error["type"] == "too_short" and isinstance(given, list | tuple) and len(given) >= least


def _message(error: ErrorDetails, name: str) -> str:
    kind, context = error["type"], error.get("ctx", {})
    if kind in ("missing", "union_tag_not_found"):
        key = f".{str(context['discriminator']).strip(QUOTE)}" if context else ""
        return f"{name}{key} is missing; it has no default"
    if kind == "union_tag_invalid":
        kinds = str(context["expected_tags"]).replace(QUOTE, "").split(", ")
        return _unknown(f"kind of {name}", str(context["tag"]), kinds)
    return f"{name}: {_worded(error)}{_given(error)}"


def _dotted(location: Location) -> str:
    return ".".join(map(str, location)) or "the recipe"


def _worded(error: ErrorDetails) -> str:
    for words, kinds in _WANTED.items():
        if error["type"] in kinds:
            return words
    if error["type"] == "too_short":
        return f"needs at least {error['ctx']['min_length']} of them"
    message = error["msg"].removeprefix("Value error, ").removeprefix("Assertion failed, ")
    return " ".join(re.sub(r"^(Input|String|Value) should ", "must ", message).split())


def _given(error: ErrorDetails) -> str:
    value = error.get("input")
    if error["type"] == "value_error" or not isinstance(value, str | int | float | bool):
        return ""  # Our own validators say what they were given.
    text = repr(value)
    return f" (it is {text if len(text) <= 60 else text[:60] + '...'})"


def _written(error: ErrorDetails, raw: object) -> Location:
    """The error's location without the steps pydantic adds for unions: they are in no file."""
    kept: list[str | int] = []
    for step in error["loc"]:
        if (isinstance(raw, dict) and step in raw) or (
            isinstance(raw, list) and isinstance(step, int) and step < len(raw)
        ):
            kept.append(step)
            raw = raw[step]  # type: ignore[index]
    return (*kept, error["loc"][-1]) if error["type"] == "missing" else tuple(kept)


def _describing(model: type[BaseModel], raw: Mapping[str, Any]) -> type[BaseModel]:
    return model.described_by(raw) if issubclass(model, StageConfig) else model


def _unknown(what: str, given: str, known: Sequence[str]) -> str:
    return f"unknown {what}: {given[:60]!r}; {nearest(given, known)}"


def _known_keys(model: type[BaseModel], location: Location) -> list[str]:
    """Keys that `model` allows at `location`, over all branches of its unions."""
    schema = model.model_json_schema()
    nodes = _branches([schema], schema)
    for step in location:
        children = [child for node in nodes if (child := _child(node, step)) is not None]
        nodes = _branches(children, schema)
    return list(dict.fromkeys(key for node in nodes for key in node.get("properties", {})))


def _branches(nodes: list[dict[str, Any]], schema: dict[str, Any]) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = []
    for node in nodes:
        if reference := node.get("$ref"):
            found += _branches([schema["$defs"][reference.rsplit("/", 1)[-1]]], schema)
        choices = [choice for word in ("anyOf", "oneOf", "allOf") for choice in node.get(word, [])]
        found += [node, *_branches(choices, schema)]
    return found


def _child(node: dict[str, Any], step: str | int) -> dict[str, Any] | None:
    inner = node.get("items") if isinstance(step, int) else node.get("properties", {}).get(step)
    child = inner or node.get("additionalProperties")
    return child if isinstance(child, dict) else None
