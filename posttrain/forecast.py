"""What each training stage of a plan will draw of its data, told before anything runs.

Counts are those of the data that are there, or those that the recipe declares. A share of tokens
needs tokens to be counted: what cannot be told is said to be unknown, never guessed. How many bins
a source fills is known when it is packed; until then they are taken to be full, and it is said.
"""

import json
import math
from collections.abc import Iterator, Mapping
from typing import Any

from posttrain.data import manifest, mixture
from posttrain.data.manifest import Split
from posttrain.data.mixture import Mixture, Size
from posttrain.data.packing import PackingConfig
from posttrain.plan import Node, Plan
from posttrain.store import Artifact


def forecasts(plan: Plan) -> dict[str, dict[str, Any]]:
    """Stage -> `{"steps", "sources", "told"}`, or `{"unknown": why}`; of a finished one its record.

    `sources` maps each to its share, rows (with packing its bins) and epochs; `told` says the same
    in lines.
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
    try:
        capacity = context(plan, node) + 1 if mixed.packing else None
        for name in mixed.parts:
            sizes[name] = _size(plan.nodes[node.inputs[f"data.{name}"]], mixed, capacity)
    except ValueError as unknown:
        return {"unknown": str(unknown)}
    found = mixture.forecast(mixed, sizes)
    told = [
        f"draws {mixture.told(each, mixed)}{_guess(sizes[each.source], capacity)}"
        for each in found.sources
    ]
    return {"steps": found.steps, "sources": [e._asdict() for e in found.sources], "told": told}


def _guess(size: Size, capacity: int | None) -> str:
    if capacity is None:
        return ""
    return f" (taking its {size.rows:,} bins of {capacity:,} tokens to be full)"


def context(plan: Plan, node: Node) -> int:
    """Tokens of context that the stage trains with; ValueError if nothing tells yet."""
    if (stated := node.config.context_length()) is not None:
        return stated
    if node.cached is not None:
        config = json.loads((node.cached.path / "model/config.json").read_bytes())
        return int(config["max_position_embeddings"])
    if (source := node.inputs.get("from")) is None:
        raise ValueError(f"a bin is as long as the context of {node.name}, which is not there yet")
    return context(plan, plan.nodes[source])


def _size(source: Node, mixed: Mixture, capacity: int | None) -> Size:
    """Rows or bins of a data node, and their amount; ValueError says what is not known."""
    name, split = source.name, _counts(source)
    if split.rows == 0:
        raise ValueError(f"{name} has no training rows")
    examples = split.rows
    if mixed.packing and capacity:
        examples = _bins(name, split, capacity, mixed.packing)
    if not mixture.needs_tokens(mixed):
        return Size(examples, split.rows)
    if split.optimised_tokens is None:
        raise _uncounted(name)
    return Size(examples, split.optimised_tokens)


def _bins(name: str, split: Split, capacity: int, packing: PackingConfig) -> int:
    """The fewest bins that have room for the rows; best fit decreasing takes hardly more."""
    if split.tokens is None:
        raise _uncounted(name)
    return max(math.ceil(split.tokens / capacity), math.ceil(split.rows / packing.documents))


def _uncounted(name: str) -> ValueError:
    return ValueError(f"{name} has uncounted tokens (a check with a `tokenizer` counts them)")


def _counts(source: Node) -> Split:
    if source.cached is not None:
        splits = manifest.read(source.cached.path).splits
        return splits.get("train", Split(shards=(), rows=0))
    if source.blocked:
        raise ValueError(f"{source.name} is blocked")
    if rows := source.config.declared_rows().get("train"):
        return Split(shards=(), rows=rows)
    raise ValueError(f"{source.name} is not there yet, and its rows are not declared")
