"""Backend profiles: what differs between hardware, and nothing else.

A profile is pure data: the environment that must stand before Ray or verl is imported, the
logical resources of Ray, and the verl overrides of training and rollout. Stages name a backend
and never ask what it is made of. Importing this package imports nothing heavy.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field

VERL_VERSION = "0.9.1"
"""The verl release that profiles, plug-ins and patches were written against."""


@dataclass(frozen=True)
class RayResources:
    """Logical resources of one machine's Ray; on CPU the accelerators are slots, not hardware."""

    cpus: int
    accelerators: int


@dataclass(frozen=True)
class Profile:
    """One backend.

    `environment` is set in every process before Ray, verl or vLLM is imported (local Ray workers
    inherit it). `ray` is None where Ray finds the hardware itself. `engine` and `rollout` are verl
    overrides (dotted key -> value, relative to the root of verl's PPO config). `forks_workers` says
    whether an RL run's processes are forked from one that has imported everything.
    """

    name: str
    environment: Mapping[str, str] = field(default_factory=dict)
    ray: RayResources | None = None
    engine: Mapping[str, object] = field(default_factory=dict)
    rollout: Mapping[str, object] = field(default_factory=dict)
    forks_workers: bool = False


def profile(name: str) -> Profile:
    """The profile called `name`; ValueError names the known ones."""
    from posttrain.backends import cpu, gpu

    profiles = {each.name: each for each in (cpu.PROFILE, gpu.PROFILE)}
    if name not in profiles:
        raise ValueError(f"unknown backend {name!r}; known backends: {', '.join(profiles)}")
    return profiles[name]
