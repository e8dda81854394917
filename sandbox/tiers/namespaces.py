"""The tier `namespaces`: Linux namespaces by bubblewrap, with warm interpreters. The default.

Needs no daemon and no privilege: only a kernel that lets users make user namespaces. As root it
holds more (control groups; users of their own for slots); `enforces` tells what holds here.
"""

import os
from collections.abc import Mapping
from contextlib import ExitStack
from functools import partial
from itertools import count
from pathlib import Path
from typing import Any

from pydantic import BaseModel, ConfigDict

from sandbox.tiers import Slot, SlotLost, cgroup, seccomp
from sandbox.tiers.bubblewrap import Root, command, contents, find_bubblewrap
from sandbox.tiers.inside import supervisor, warm
from sandbox.tiers.inside.place import HOME
from sandbox.tiers.interpreter import find_interpreter
from sandbox.tiers.shipment import shipment
from sandbox.tiers.slot import SCRIPT, WarmSlot
from sandbox.tiers.zygote import Zygote

ENVIRONMENT = {
    "HOME": HOME, "PWD": HOME,
    "LANG": "C.UTF-8", "TZ": "UTC", "PYTHONHASHSEED": "0",
    "OPENBLAS_NUM_THREADS": "1", "OMP_NUM_THREADS": "1", "MKL_NUM_THREADS": "1",
}  # fmt: skip
_taken: set[int] = set()
"""Numbers of this process's slots, which their users and control groups are named by."""


class Settings(BaseModel):
    """`interpreter`: that of the programs, by default the service's own outside its virtual
    environment. `preload`: modules it loads beforehand, where it has them. `first_user`: as root,
    slots run as users counted from here, which must be nobody's.
    """

    model_config = ConfigDict(extra="forbid", frozen=True)

    interpreter: Path | None = None
    preload: tuple[str, ...] = ("numpy", "numpy.random")
    recycle_after: int = 1000
    first_user: int = 64001


class Namespaces:
    """The tier; NotOffered where this machine lacks something, saying what."""

    name = "namespaces"

    def __init__(self, settings: Settings | None = None) -> None:
        self._settings = settings or Settings()
        self._bubblewrap = find_bubblewrap()
        self._parents = cgroup.find_parents()
        if self._parents is not None:
            cgroup.reap(self._parents)
        rules = seccomp.program_filter(accounted="memory" in self._controls)
        self._root = Root(
            find_interpreter(self._settings.interpreter), shipment("supervisor", rules)
        )
        self._environment = {"PATH": self._root.search, **ENVIRONMENT}

    async def slot(self) -> Slot:
        """As `sandbox.tiers.Tier`."""
        number = next(number for number in count() if number not in _taken)
        _taken.add(number)
        slot = WarmSlot(
            partial(self._zygote, number),
            self._settings.recycle_after,
            partial(_taken.discard, number),
        )
        try:
            await slot.warm()
        except BaseException:
            await slot.close()
            raise
        return slot

    def enforces(self) -> Mapping[str, str]:
        """As `sandbox.tiers.Tier`."""
        group = "" if self._parents is None else f"cgroup {self._parents.dialect.name}"
        by_us = "the slot's supervisor kills it, out of its reach"
        looking = f"best effort: {by_us}, looking at all its processes ten times a second"
        own_user = f"a host user of its own (from {self._settings.first_user}), without rights"
        user = host_user(self._settings.first_user, 0)
        return {
            "wall": by_us,
            "cpu": f"{by_us}; time by {group if 'cpuacct' in self._controls else '/proc'}",
            "memory": group if "memory" in self._controls else looking,
            "processes": group if "pids" in self._controls else "RLIMIT_NPROC",
            "output": by_us,
            "files": "tmpfs of a bounded size and number of inodes; RLIMIT_FSIZE",
            "filesystem": "mount namespace with a read-only root of the system's programs",
            "network": "network namespace with a loopback of its own",
            "processes of others": "process namespace for each program; no ptrace",
            "shared memory": "ipc namespace for each program",
            "system calls": "seccomp filter; no capabilities; no new privileges",
            "user": own_user if user else "the service's own user, in a user namespace",
        }

    @property
    def _controls(self) -> frozenset[str]:
        return frozenset() if self._parents is None else frozenset(self._parents.directories)

    def _zygote(self, number: int) -> Zygote:
        try:
            with ExitStack() as undo:
                group = None if self._parents is None else cgroup.Group(self._parents, number)
                if group is not None:
                    undo.callback(group.discard)
                made = Zygote(partial(self._launch, number, group), group, self._environment)
                undo.pop_all()
                return made
        except OSError as fault:
            raise SlotLost("start", str(fault)) from None

    def _launch(
        self, number: int, group: cgroup.Group | None, control: int, parent: int
    ) -> dict[str, Any]:
        """What the launcher is told."""
        user = host_user(self._settings.first_user, number)
        own = [tree for tree in (self._bubblewrap.tree,) if tree is not None]
        trees = [*self._root.trees(), *own]
        binary = self._bubblewrap.path
        if user is None:
            shown = {tree: str(tree) for tree in trees}
        else:
            shown = {tree: f"/tmp/{position}" for position, tree in enumerate(trees)}
            for tree in own:
                binary = Path(shown[tree]) / binary.relative_to(tree)
        argv = command(self._root, shown, [self._root.python, SCRIPT])
        return {
            "parent": parent,
            "groups": [] if group is None else [str(path) for path in group.joins],
            "user": user,
            "trees": [str(tree) for tree in trees],
            "bubblewrap": str(binary),
            "argv": argv,
            "contents": [content.decode("latin-1") for content in contents(self._root)],
            "env": self._environment
            | {
                "PYTHONPATH": warm.HERE,
                supervisor.CONTROL: str(control),
                warm.PRELOAD: ",".join(self._settings.preload),
            },
        }


def host_user(first: int, number: int) -> int | None:
    """The user a slot is to become before all else; only root can be another than it is."""
    return first + number if os.geteuid() == 0 else None
