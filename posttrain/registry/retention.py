"""Retention: why an artifact must stay, and what nobody needs any more.

An artifact is needed if an alias points to it or can be rolled back to it, if the plan of a run
has it, or if a checkpoint that is not retired, or anything needed, was made from it. Whatever is
not retired, nor made from something retired, stays in any case.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from posttrain.journal import Journal, runs
from posttrain.registry.events import Event
from posttrain.registry.kinds import CHECKPOINT_KINDS
from posttrain.registry.state import removed, stacks
from posttrain.store import Artifact, Store


@dataclass(frozen=True)
class Shelf:
    """What decides retention: every artifact, the runs' plans and the history."""

    artifacts: Mapping[str, Artifact]
    plans: Mapping[str, frozenset[str]]
    events: Sequence[Event]


def read(store: Store, events: Sequence[Event]) -> Shelf:
    """The shelf as the store has it now; `plans` maps a run to its stages' keys."""
    plans = {
        run: frozenset(stage.key for stage in Journal(store, run).archived().stages)
        for run in runs(store)
    }
    return Shelf({each.address: each for each in store.artifacts()}, plans, events)


def reasons(shelf: Shelf, without: str | None = None) -> dict[str, list[str]]:
    """Address -> why it is needed, for all that is; `without` one checkpoint, as if retired."""
    why: dict[str, list[str]] = {}
    for alias, stack in stacks(shelf.events).items():
        for depth, version in enumerate(reversed(stack)):
            told = "points to it" if depth == 0 else "can be rolled back to it"
            why.setdefault(version.address, []).append(f"alias {alias} {told}")
    for run, keys in shelf.plans.items():
        for address, artifact in shelf.artifacts.items():
            if artifact.record.key in keys:
                why.setdefault(address, []).append(f"the plan of run {run} has it")
    _add_inputs(shelf, why, _kept(shelf) - {without})
    return why


def _kept(shelf: Shelf) -> set[str | None]:
    """The checkpoints that are not retired."""
    return {
        address
        for address, artifact in shelf.artifacts.items()
        if artifact.record.kind in CHECKPOINT_KINDS and address not in removed(shelf.events)
    }


def _add_inputs(shelf: Shelf, why: dict[str, list[str]], kept: Iterable[str | None]) -> None:
    """Follow the inputs of what is needed, and of the checkpoints that are kept."""
    waiting: list[str] = list({*why, *filter(None, kept)})
    seen = set(waiting)
    while waiting:
        address = waiting.pop()
        artifact = shelf.artifacts.get(address)
        for source in dict.fromkeys(artifact.record.inputs.values()) if artifact else ():
            why.setdefault(source, []).append(f"{address} was made from it")
            if source not in seen:
                seen.add(source)
                waiting.append(source)


def garbage(shelf: Shelf) -> list[Artifact]:
    """Retired checkpoints, and what was made from them, that nothing needs; users first."""
    doomed = _with_users(shelf, set(removed(shelf.events)))
    free = doomed - reasons(shelf).keys() - _kept(shelf)
    found = [shelf.artifacts[address] for address in free if address in shelf.artifacts]
    return sorted(found, key=lambda each: (each.record.created, each.address), reverse=True)


def _with_users(shelf: Shelf, addresses: set[str]) -> set[str]:
    """`addresses`, and all that was made from them."""
    users: dict[str, list[str]] = {}
    for address, artifact in shelf.artifacts.items():
        for source in artifact.record.inputs.values():
            users.setdefault(source, []).append(address)
    found, waiting = set(addresses), list(addresses)
    while waiting:
        for user in users.get(waiting.pop(), []):
            if user not in found:
                found.add(user)
                waiting.append(user)
    return found
