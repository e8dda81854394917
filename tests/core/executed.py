"""Plans executed node by node in the test's own process: real stages and store, without Ray."""

from collections.abc import Mapping
from pathlib import Path

from posttrain.execution import assign, execute
from posttrain.journal import Journal
from posttrain.plan import Plan, resolve
from posttrain.recipe import load
from posttrain.reports import describe
from posttrain.store import Artifact, Store


def planned(recipe: Path, *changes: str) -> Plan:
    """The plan of a recipe against the store beside it."""
    return resolve(load(recipe, changes), Store(recipe.parent / "store"))


def executed(
    recipe: Path, *changes: str, urls: Mapping[str, str] | None = None
) -> dict[str, Artifact]:
    """Node -> artifact, of all nodes; what the store has is not made again.

    `urls` are those of the services that its stages need.
    """
    plan, store = planned(recipe, *changes), Store(recipe.parent / "store")
    plan.check()
    Journal(store, plan.recipe.name).begin(describe(plan))
    addresses: dict[str, str] = {}
    for node in plan.nodes.values():
        done = node.cached.address if node.cached else None
        assignment = assign(node, plan.recipe, store, addresses, urls or {})
        addresses[node.name] = done or execute(assignment)
    return {name: store.get(address) for name, address in addresses.items()}
