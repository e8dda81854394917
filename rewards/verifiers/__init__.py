"""The registry of verifiers: a name on the wire leads to one module that says all about itself.

A module has `RUNS`, `GOLD`, `PARAMETERS`, `DISTRIBUTIONS`, `CANARIES`, and `verify(item)`, or if it
is remote `connected(probing=False)`, an async context that gives an async `verify(item)`, and if it
needs longer than the service's deadline, `DEADLINE` in seconds. The connection for canaries is
`probing`: it soon gives up a service out of reach, and takes nothing that is remembered. Verdicts
depend on all of an item but its id. Nothing is imported until a process needs it, so a service pays
only for what it serves.
"""

import importlib
from collections.abc import Mapping, Sequence
from types import MappingProxyType, ModuleType
from typing import Any, Literal

from rewards.schema import Item, Score, Verdict, Wire
from rewards.verifiers.digest import version_digest

BUILT_IN: Mapping[str, str] = MappingProxyType(
    {
        name: f"rewards.verifiers.{name}"
        for name in ("answer", "math", "constraints", "code", "judge", "critique", "rules")
    }
)
SELF_CONTAINED = ("answer", "math", "constraints")
"""Those that need no other service."""

Runs = Literal["inline", "worker", "remote"]
"""Where: inside the service for microseconds, in a worker process, or behind another service."""


class Unavailable(Exception):
    """A remote verifier cannot be asked; the verdict is `failed` with this `reason`."""

    def __init__(self, reason: str, detail: str) -> None:
        super().__init__(detail)
        self.reason = reason
        self.detail = detail


class Canary(Wire):
    """An item whose score is known: it warms a worker and tells a sound one from a broken one.

    A score may differ by `within`, for verifiers that need not be certain.
    """

    item: Item
    score: Score
    within: Score = 0.0

    def passes(self, verdict: Verdict) -> bool:
        """Whether `verdict` is the known one."""
        return verdict.score is not None and abs(verdict.score - self.score) <= self.within

    def under(self, name: str) -> "Canary":
        """The same, for the verifier served as `name`."""
        return self.model_copy(update={"item": self.item.model_copy(update={"verifier": name})})


class Profile(Wire):
    """What a verifier says about itself; `gold` and `parameters` are JSON schemas.

    Equal digests mean equal code, data, settings that decide, and versions of what the code stands
    on, the sandbox's among them. What a judge's model answers is not covered.
    """

    name: str
    runs: Runs
    digest: str
    gold: dict[str, Any]
    parameters: dict[str, Any]
    canaries: list[Canary]


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


def load(name: str, module: str) -> tuple[ModuleType, Profile]:
    """Import a verifier. ImportError, or ValueError if it does not pass its own canaries."""
    found = importlib.import_module(module)
    profile = Profile(
        name=name,
        runs=found.RUNS,
        digest=version_digest(
            module,
            found.DISTRIBUTIONS,
            getattr(found, "SETTINGS", ()),
            getattr(found, "SERVICES", ()),
        ),
        gold=found.GOLD.json_schema(),
        parameters=found.PARAMETERS.json_schema(),
        canaries=[canary.under(name) for canary in found.CANARIES],
    )
    if not profile.canaries:
        raise ValueError("it has no canary")
    if profile.runs != "remote":
        _prove(found, profile)
    return found, profile


def _prove(found: ModuleType, profile: Profile) -> None:
    for canary in profile.canaries:
        if not canary.passes(found.verify(canary.item)):
            raise ValueError(f"it fails canary {canary.item.id}")
