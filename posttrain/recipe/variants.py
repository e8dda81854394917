"""Variants of a stage: several configurations side by side, each written as what it changes.

    rl:
      kind: rl
      ...                       keys that all have in common
      variants:
        plain: {}
        thinking: {lengths: {response: 8192}}

A variant is its stage with the changes merged in as `extends` merges a recipe: maps key by key, all
else replaced. It is a stage like any other, called `rl.plain`, and its values keep their places.
"""

import copy
from collections.abc import Iterator, Mapping
from typing import Any

from posttrain import names
from posttrain.recipe.document import Location
from posttrain.recipe.source import Source, merge

KEY = "variants"


def expanded(
    stage: Location, raw: Mapping[str, Any], source: Source
) -> tuple[dict[Location, dict[str, Any]], list[str]]:
    """Location -> values of each variant of the entry at `stage`, and a line for each fault.

    The places of those values are added to `source`. An entry without variants is its own only one.
    """
    if KEY not in raw:
        return {stage: dict(raw)}, []
    place, declared = source.where((*stage, KEY)), raw[KEY]
    if not isinstance(declared, dict) or len(declared) < 2:
        return {}, [f"{place}: {_dotted(stage)}.{KEY}: two or more are wanted, NAME: {{changes}}"]
    if faults := list(_faults(stage, declared, source)):
        return {}, faults
    shared = {key: value for key, value in raw.items() if key != KEY}
    found = {}
    for name, changes in declared.items():
        at = (*stage[:-1], f"{stage[-1]}.{name}")
        _copy_places(source, stage, at)
        values = copy.deepcopy(shared)
        merge(source, values, copy.deepcopy(changes), at)
        _copy_places(source, (*stage, KEY, name), at)
        found[at] = values
    return found, []


def _faults(stage: Location, declared: Mapping[str, Any], source: Source) -> Iterator[str]:
    for name, changes in declared.items():
        at = (*stage, KEY, name)
        try:
            names.checked(name)
        except ValueError as fault:
            yield f"{source.where(at)}: {_dotted(at[:-1])}: {fault}"
            continue
        if not isinstance(changes, dict):
            yield f"{source.where(at)}: {_dotted(at)}: a map of what it changes is wanted"
        elif "kind" in changes:
            kind = source.where((*at, "kind"))
            yield f"{kind}: {_dotted(at)}.kind: a variant has the kind of its stage; remove it"


def _copy_places(source: Source, stage: Location, to: Location) -> None:
    """Let what stands at and below `stage`, but for its variants, be found at and below `to`."""
    size, hidden = len(stage), (*stage, KEY)
    for known, place in list(source.places.items()):
        if known[:size] == stage and known[: size + 1] != hidden:
            source.places[(*to, *known[size:])] = place


def once(faults: Mapping[Location, list[str]], stage: Location, source: Source) -> Iterator[str]:
    """Faults by variant; one that several have in common is told once, as the stage's."""
    told: dict[str, list[str]] = {}
    for at, lines in faults.items():
        for line in lines:
            what = line.partition(": ")[2].replace(_dotted(at), _dotted(stage))
            told.setdefault(what, []).append(line)
    for what, lines in told.items():
        places = {line.partition(": ")[0] for line in lines}
        place = places.pop() if len(places) == 1 else source.where(stage)
        yield lines[0] if len(lines) == 1 else f"{place}: {what}"


def alike(configs: Mapping[str, Any]) -> tuple[str, str] | None:
    """Two variants that say the same, if there are such: they would be one and the same result."""
    for index, (name, config) in enumerate(configs.items()):
        for other in list(configs)[index + 1 :]:
            if configs[other] == config:
                return name, other
    return None


def _dotted(location: Location) -> str:
    return ".".join(map(str, location))
