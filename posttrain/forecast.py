"""What each training stage of a plan will draw of its data, told before anything runs.

Counts are those of the data that are there, or those that the recipe declares. A share of tokens
needs tokens to be counted: what cannot be told is said to be unknown, never guessed.
"""

from collections.abc import Iterator, Mapping
from typing import Any

from posttrain.data import manifest, mixture
from posttrain.data.manifest import Split
from posttrain.data.mixture import Mixture, Size
from posttrain.plan import Node, Plan
from posttrain.store import Artifact


def forecasts(plan: Plan) -> dict[str, dict[str, Any]]:
    """Stage -> `{"steps", "sources", "told"}`, or `{"unknown": why}`; of a finished one its record.

    `sources` maps each to its share, rows and epochs; `told` says the same in lines.
    """
    return {
        name: _recorded(node.cached) if node.cached else _forecast(plan, node, mixed)
        for name, node in plan.nodes.items()
        if (mixed := node.config.mixture()) is not None
    }


def lines(found: Mapping[str, Mapping[str, Any]]) -> Iterator[str]:
    """The forecasts, a line for each source."""
    for stage, forecast in found.items():
        if "unknown" in forecast:
            yield f"{stage}: what it draws of its data is unknown: {forecast['unknown']}"
        else:
            yield from (f"{stage} {line}" for line in forecast["told"])


def _recorded(done: Artifact) -> dict[str, Any]:
    """What a finished stage drew."""
    facts = done.record.facts
    sources = [
        {"source": name, "share": facts["shares"][name], "epochs": epochs}
        for name, epochs in facts["epochs"].items()
    ]
    told = [f"drew {s['source']} {s['share']:.1%}: {s['epochs']:.2f} epochs" for s in sources]
    return {"steps": facts["steps"], "sources": sources, "told": told}


def _forecast(plan: Plan, node: Node, mixed: Mixture) -> dict[str, Any]:
    sizes: dict[str, Size] = {}
    for name in mixed.parts:
        try:
            sizes[name] = _size(plan.nodes[node.inputs[f"data.{name}"]], mixed)
        except ValueError as unknown:
            return {"unknown": f"{name} {unknown}"}
    found = mixture.forecast(mixed, sizes)
    told = [
        f"draws {mixture.told(each, mixed.parts[each.source], mixed.on_exhausted)}"
        for each in found.sources
    ]
    return {"steps": found.steps, "sources": [e._asdict() for e in found.sources], "told": told}


def _size(source: Node, mixed: Mixture) -> Size:
    """Rows and amount of a data node; ValueError says what is not known."""
    split = _counts(source)
    if split.rows == 0:
        raise ValueError("has no training rows")
    if not mixture.needs_tokens(mixed):
        return Size(split.rows, split.rows)
    if split.optimised_tokens is None:
        raise ValueError("has uncounted tokens (a check with a `tokenizer` counts them)")
    return Size(split.rows, split.optimised_tokens)


def _counts(source: Node) -> Split:
    if source.cached is not None:
        splits = manifest.read(source.cached.path).splits
        return splits.get("train", Split(shards=(), rows=0))
    if source.blocked:
        raise ValueError("is blocked")
    if rows := source.config.declared_rows().get("train"):
        return Split(shards=(), rows=rows)
    raise ValueError("is not there yet, and its rows are not declared")
