"""Auxiliary checkpoints: their verdicts chose data (`kind: filter`), and their weights go nowhere.

A checkpoint is auxiliary as soon as the store holds data that it chose, or a plan has such data
made, and so is whatever was trained from it: only data may carry over from one to the other.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Protocol, TypeVar

from posttrain.stages.filter import AUXILIARY
from posttrain.store import Artifact, Store

T = TypeVar("T")


class Planned(Protocol):
    """What a plan says of a stage: its inputs by role, and its artifact if that was made."""

    @property
    def kind(self) -> str:
        """The stage kind."""

    @property
    def inputs(self) -> Mapping[str, str]:
        """Role -> name of the stage it comes from."""

    @property
    def cached(self) -> Artifact | None:
        """The result, if the store has it."""


def fault(store: Store, checkpoint: Artifact) -> str | None:
    """Why the weights of `checkpoint` may not be promoted; None if no auxiliary's are in them.

    ValueError names a checkpoint they go back to of which nothing is known.
    """
    history = _History(store)
    return _told(checkpoint.address, history.origins, history.chosen)


def planned_fault(store: Store, nodes: Mapping[str, Planned], checkpoint: str) -> str | None:
    """Why the weights of the stage `checkpoint` may not be promoted, before anything runs.

    None if, as far as plan and store tell, no auxiliary checkpoint's are in them.
    """
    chosen = {node.inputs["from"]: name for name, node in nodes.items() if node.kind == "filter"}
    origins = {name: list(_origins(node.inputs)) for name, node in nodes.items()}
    if told := _told(checkpoint, origins.__getitem__, chosen):
        return told
    made = [nodes[name].cached for name in _lineage(checkpoint, origins.__getitem__)]
    if not any(made):
        return None
    history = _History(store)
    every = (_told(each.address, history.known, history.chosen) for each in made if each)
    return next((told for told in every if told), None)


class _History:
    """What the store knows of weights; `chosen` maps a checkpoint to data that it chose."""

    def __init__(self, store: Store) -> None:
        self._records = {record.address: record for record in store.records()}
        self.chosen = {
            record.facts[AUXILIARY]: address
            for address, record in self._records.items()
            if record.kind == "filter"
        }

    def known(self, address: str) -> Iterator[str]:
        """What a checkpoint's weights come from, if it is known."""
        if address in self._records:
            yield from _origins(self._records[address].inputs)

    def origins(self, address: str) -> Iterator[str]:
        """The same; ValueError if it is not known."""
        if address not in self._records:
            raise ValueError(f"the store has no {address}: what it was trained from is not known")
        return self.known(address)


def _told(
    checkpoint: str, origins: Callable[[str], Iterable[str]], chosen: Mapping[str, str]
) -> str | None:
    for weights in _lineage(checkpoint, origins):
        if data := chosen.get(weights):
            made = "is" if weights == checkpoint else "was trained from"
            return (
                f"{checkpoint} {made} an auxiliary checkpoint ({weights} chose the prompts of "
                f"{data}): its verdicts may be used, its weights never"
            )
    return None


def _lineage(start: T, origins: Callable[[T], Iterable[T]]) -> Iterator[T]:
    """`start`, and all that its weights go back to."""
    waiting = [start]
    while waiting:
        yield (weights := waiting.pop())
        waiting += origins(weights)


def _origins(inputs: Mapping[str, str]) -> Iterator[str]:
    """Where weights come from, among a stage's inputs."""
    yield from (each for role, each in inputs.items() if role.partition(".")[0] == "from")
