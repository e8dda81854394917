"""What to start next and whether to try again: decisions on plain values, without any effect."""

from collections.abc import Collection, Mapping
from dataclasses import dataclass

from posttrain.plan import Node, Plan

ATTEMPTS = 4
"""How often a stage whose process died is started in all; each continues from its checkpoint."""


_ALONE_OF_THEIR_KIND = frozenset({"rl"})
"""verl names its actors, so that one Ray session holds those of one run at a time."""


def startable(
    plan: Plan, done: Collection[str], running: Mapping[str, Node], cores: int
) -> list[Node]:
    """Nodes to start now, in plan order: inputs done, and cores free for them.

    A node that asks for more cores than there are gets all of them, alone. Of some kinds one runs
    at a time, however many cores there are.
    """
    taken = {node.kind for node in running.values()} & _ALONE_OF_THEIR_KIND
    free = cores - sum(min(node.config.cores(), cores) for node in running.values())
    chosen = []
    for node in plan.nodes.values():
        if node.name in done or node.name in running or node.kind in taken:
            continue
        need = min(node.config.cores(), cores)
        if need <= free and all(source in done for source in node.inputs.values()):
            chosen.append(node)
            taken |= {node.kind} & _ALONE_OF_THEIR_KIND
            free -= need
    return chosen


@dataclass(frozen=True)
class Failure:
    """Why an attempt ended: `died` means its process vanished, which says nothing of the stage."""

    died: bool
    message: str


def again(failure: Failure, attempt: int) -> bool:
    """Whether to start the stage once more after its `attempt`-th (from 1) failed so."""
    return failure.died and attempt < ATTEMPTS
