"""Lineage: all that a checkpoint was made from, and how two checkpoints differ."""

from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass
from typing import Any

from posttrain.registry.sight import in_sight
from posttrain.store import Artifact, Store


@dataclass(frozen=True)
class Origin:
    """One artifact in a lineage: data or checkpoint, config, code and environment.

    `code` is the version of its stage and the digests of what decides its result and is in no
    config; `manifest` the sha256 of a data set's manifest, which lists its files.
    """

    address: str
    kind: str
    key: str
    digest: str
    inputs: Mapping[str, str]
    config: Mapping[str, Any]
    seed: int | None
    code: Mapping[str, Any]
    environment: Mapping[str, str]
    manifest: str | None

    def told(self) -> dict[str, Any]:
        """As JSON values."""
        return asdict(self)


def origin(artifact: Artifact) -> Origin:
    """What an artifact's record says of how it came to be."""
    record = artifact.record
    identity = record.identity
    return Origin(
        address=artifact.address, kind=record.kind, key=record.key, digest=record.digest,
        inputs=record.inputs, config=identity.get("config", {}), seed=identity.get("seed"),
        code={name: identity[name] for name in ("version", "digests") if name in identity},
        environment=record.facts.get("versions", {}), manifest=record.files.get("manifest.json"),
    )  # fmt: skip


def lineage(store: Store, artifact: Artifact) -> list[Artifact]:
    """`artifact` and all it was made from, inputs before their users; each once.

    ValueError names an input that is no longer in the store.
    """
    found: dict[str, Artifact] = {}

    def visit(each: Artifact) -> None:
        for address in each.record.inputs.values():
            if address not in found:
                visit(store.get(address))
        found[each.address] = each

    visit(artifact)
    return list(found.values())


def difference(store: Store, one: Artifact, other: Artifact) -> dict[str, tuple[Any, Any]]:
    """Dotted field -> its values in the two lineages, where they differ; None where there is none.

    Inputs that differ are followed: `from.config.steps` is the step count of what both began with.
    """
    return dict(_differing(store, one, other, ""))


def config_difference(one: Artifact, other: Artifact) -> dict[str, tuple[Any, Any]]:
    """Dotted field -> its values in the configs, kinds and seeds of two artifacts that differ."""
    sides = [dict(_flat(_said(each), "")) for each in (one, other)]
    fields = sorted(sides[0].keys() | sides[1].keys())
    pairs = ((field, (sides[0].get(field), sides[1].get(field))) for field in fields)
    return {field: values for field, values in pairs if values[0] != values[1]}


def _said(artifact: Artifact) -> dict[str, Any]:
    identity = artifact.record.identity
    return {
        "kind": artifact.record.kind, "seed": identity.get("seed"),
        **identity.get("config", {}),
    }  # fmt: skip


def _differing(
    store: Store, one: Artifact, other: Artifact, place: str
) -> Iterator[tuple[str, tuple[Any, Any]]]:
    sides = [dict(_flat(_compared(each), "")) for each in (one, other)]
    for field in sorted(sides[0].keys() | sides[1].keys()):
        values = sides[0].get(field), sides[1].get(field)
        if values[0] != values[1]:
            yield f"{place}{field}", values
    inputs = [one.record.inputs, other.record.inputs]
    for role in sorted(inputs[0].keys() | inputs[1].keys()):
        before, after = (each.get(role) for each in inputs)
        if before is None or after is None:
            yield f"{place}{role}", (before, after)
        elif before != after:
            pair = store.get(before), store.get(after)
            if pair[0].record.key != pair[1].record.key:
                yield from _differing(store, *pair, f"{place}{role}.")


def _compared(artifact: Artifact) -> dict[str, Any]:
    """What is compared of a record: not its inputs, which are followed, nor where it lies."""
    record = artifact.record
    identity = {name: value for name, value in record.identity.items() if name != "inputs"}
    return {**identity, "digest": record.digest, "metrics": in_sight(record), "facts": record.facts}


def _flat(value: Any, place: str) -> Iterator[tuple[str, Any]]:
    if isinstance(value, Mapping) and value:
        for key, inner in value.items():
            yield from _flat(inner, f"{place}.{key}" if place else str(key))
    else:
        yield place, value
