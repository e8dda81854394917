"""What to start next and whether to try again: decisions on plain values, without any effect."""

from collections.abc import Collection, Mapping
from dataclasses import dataclass

from posttrain.plan import Node, Plan

ATTEMPTS = 4
"""How often a stage whose process died is started in all; each continues from its checkpoint."""

STALLED_AFTER = 900.0
"""Seconds without a sign of life after which a running stage is given up."""


def startable(
    plan: Plan, done: Collection[str], running: Mapping[str, Node], cores: int
) -> list[Node]:
    """Nodes to start now, in plan order: inputs done, and cores free for them.

    A node that asks for more cores than there are gets all of them, alone.
    """
    free = cores - sum(min(node.config.cores(), cores) for node in running.values())
    chosen = []
    for node in plan.nodes.values():
        if node.name in done or node.name in running:
            continue
        need = min(node.config.cores(), cores)
        if need <= free and all(source in done for source in node.inputs.values()):
            chosen.append(node)
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


def stalled(last_sign: float, now: float) -> bool:
    """Whether a stage whose last sign of life was at `last_sign` (s) is to be given up."""
    return now - last_sign > STALLED_AFTER
