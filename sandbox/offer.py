"""Which tier is offered: the one asked for, and only if it has proved itself on this machine."""

import importlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from sandbox.languages import Language
from sandbox.tiers import NotOffered, Program, Run, SlotLost, Tier

if TYPE_CHECKING:
    from sandbox.slots import Place, Pool

_TIERS = {
    "docker": ("sandbox.tiers.docker", "Docker"),
    "namespaces": ("sandbox.tiers.namespaces", "Namespaces"),
    "process": ("sandbox.tiers.process", "Process"),
}


@dataclass(frozen=True)
class TierChoice:
    """The tier asked for. `process` must be allowed; the rest are settings of one tier each."""

    name: str = "namespaces"
    allow_unsafe: bool = False
    image: str | None = None
    runtime: str | None = None
    interpreter: Path | None = None

    def opened(self) -> Tier:
        """The tier. ValueError if there is none, or not with these options; else NotOffered."""
        if self.name not in _TIERS:
            raise ValueError(f"no tier {self.name!r}; there are {', '.join(_TIERS)}")
        owners = {"image": "docker", "runtime": "docker", "interpreter": "namespaces"}
        given = {name: value for name in owners if (value := getattr(self, name)) is not None}
        for name in given:
            if owners[name] != self.name:
                raise ValueError(f"--{name} is an option of the tier {owners[name]}")
        path, kind = _TIERS[self.name]
        module = importlib.import_module(path)
        made = getattr(module, kind)
        if self.name == "process":
            tier: Tier = made(allow_unsafe=self.allow_unsafe)
        else:
            tier = made(module.Settings(**given))
        return tier


async def proven(tier: Tier) -> Mapping[str, Any]:
    """The self-test's report; NotOffered if the tier fails it. `process` promises nothing."""
    if tier.name == "process":
        return {"passed": False, "detail": "the tier does not isolate; it was allowed as unsafe"}
    from sandbox.selftest import self_test

    report = await self_test(tier)
    if not report.passed:
        told = "; ".join(f"{name}: {wrong}" for name, wrong in report.failures.items())
        raise NotOffered(f"the tier {tier.name} fails its self-test here: {told}")
    return {"passed": True, "checks": sorted(report.checks)}


async def _run(program: Program, places: "Sequence[Place]") -> Run:
    return await places[0].run(program)


async def versions(pool: "Pool", languages: Mapping[str, Language]) -> Mapping[str, str]:
    """Name -> version of the languages that programs find in a slot; without the others."""
    found = {}
    for name, language in languages.items():
        program = Program(language.version)
        try:
            run = await pool.use(1, partial(_run, program))
        except SlotLost as lost:
            raise NotOffered(f"the tier {pool.tier.name} runs no program: {lost}") from None
        if run.ending == "exited" and run.exit_code == 0:
            found[name] = (run.stdout or run.stderr).decode(errors="replace").strip()
    return found
