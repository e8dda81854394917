"""The checkpoints between two ends of a lineage: each stage's own, and what it kept on its way.

Always holds: points are in the order in which they were made; what a selection passed over is none.
"""

from collections.abc import Iterator
from typing import NamedTuple

from posttrain.registry import CHECKPOINT_KINDS
from posttrain.store import Artifact, Store


class Point(NamedTuple):
    """A checkpoint of stage `made`; `step` tells one that was kept on the way from its last."""

    made: Artifact
    step: int | None
    checkpoint: Artifact

    @property
    def name(self) -> str:
        """Its address, and the step if it is not the last."""
        return self.made.address if self.step is None else f"{self.made.address} step {self.step}"


class _Link(NamedTuple):
    """An artifact of the chain, and the step from which the next one started; None is its last."""

    made: Artifact
    until: int | None


def points(store: Store, good: Artifact, bad: Artifact) -> list[Point]:
    """From `good` to `bad`, both included; ValueError if `bad` was not made from `good`."""
    chain = _chain(store, good, bad)
    found = [Point(good, None, good)] if chain[0].until is None else []
    for link in chain[1:]:
        found += _kept(link.made, link.until)
        if link.until is None:
            found.append(Point(link.made, None, link.made))
    if len(found) < 2 or not found[0].made.address == good.address:
        raise ValueError(
            f"{good.address} was passed over: a later stage went on from one of its earlier steps; "
            "name the stage before it as --good"
        )
    return found


def _chain(store: Store, good: Artifact, bad: Artifact) -> list[_Link]:
    """Links from `good` to `bad`."""
    links = [_Link(bad, None)]
    while links[0].made.address != good.address:
        source = _source(store, links[0].made)
        if source is None:
            cure = _cure(store, links, good)
            raise ValueError(f"{bad.address} was not made from {good.address}{cure}")
        links.insert(0, source)
    if len(links) == 1:
        raise ValueError(f"--good and --bad are both {bad.address}; name two checkpoints")
    return links


def _cure(store: Store, links: list[_Link], good: Artifact) -> str:
    """What to say where `good` is not among `links`, which lead to the bad end."""
    *before, bad = (link.made.address for link in links)
    if before:
        return f"; it comes from {', '.join(before)}: name one of these, or another --bad"
    above = _source(store, good)
    while above is not None and above.made.address != bad:
        above = _source(store, above.made)
    return ", but that from it: exchange --good and --bad" if above else "; it comes from no other"


def _source(store: Store, made: Artifact) -> _Link | None:
    """What the checkpoint `made` started from; None if it is the first."""
    role, step = "from", None
    if chosen := made.record.facts.get("selected"):
        role, step = f"from.{chosen['stage']}", chosen["step"]
    address = made.record.inputs.get(role)
    source = store.get(address) if address else None
    if source is None or source.record.kind not in CHECKPOINT_KINDS:
        return None
    return _Link(source, step)


def _kept(made: Artifact, until: int | None) -> Iterator[Point]:
    from posttrain.training.keeping import kept

    for each in kept(made.path):
        if until is None or each.step <= until:
            record = made.record.model_copy(update={"facts": dict(each.facts)})
            yield Point(made, each.step, Artifact(each.path, record))
