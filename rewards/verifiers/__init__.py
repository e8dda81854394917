"""The registry of verifiers: a name on the wire leads to one module with `verify` and `CANARIES`.

Nothing is imported until a worker needs it, so a service pays only for what it serves.
"""

import importlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType

from rewards.schema import Item, Score, Verdict, Wire

BUILT_IN: Mapping[str, str] = MappingProxyType(
    {"answer": "rewards.verifiers.answer", "math": "rewards.verifiers.math"}
)


class Canary(Wire):
    """An item whose score is known: it warms a worker and tells a sound one from a broken one."""

    item: Item
    score: Score

    def passes(self, verdict: Verdict) -> bool:
        """Whether `verdict` is the known one."""
        return verdict.status == "scored" and verdict.score == self.score


@dataclass(frozen=True)
class Verifier:
    """A loaded verifier. `verify` may raise: that is a fault, never a score."""

    verify: Callable[[Item], Verdict]
    canaries: Sequence[Canary]


def select(names: Sequence[str]) -> dict[str, str]:
    """Name -> module of the verifiers to serve, each given as `NAME` or `NAME=MODULE`.

    ValueError for a name that is neither built in nor comes with a module, or comes twice.
    """
    chosen: dict[str, str] = {}
    for text in names:
        name, _, module = text.partition("=")
        if name in chosen:
            raise ValueError(f"verifier {name} is named twice")
        if not module and name not in BUILT_IN:
            known = ", ".join(BUILT_IN)
            raise ValueError(f"no verifier {name!r}; there are {known}, or give NAME=MODULE")
        chosen[name] = module or BUILT_IN[name]
    if not chosen:
        raise ValueError("name at least one verifier")
    return chosen


def load(name: str, module: str) -> Verifier:
    """Import a verifier. ImportError, or ValueError if it does not pass its own canaries."""
    found = importlib.import_module(module)
    verifier = Verifier(found.verify, found.CANARIES)
    if not verifier.canaries:
        raise ValueError(f"verifier {name} ({module}) has no canary")
    for canary in verifier.canaries:
        if not canary.passes(verifier.verify(canary.item)):
            raise ValueError(f"verifier {name} ({module}) fails its canary {canary.item.id}")
    return verifier
