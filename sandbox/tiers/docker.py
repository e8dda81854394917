"""The tier `docker`: a warm container for each slot, hardened, with our supervisor as its init.

Runs cost no call to the daemon: they travel over the container's attached streams. Programs in a
container share its namespaces one after the other; what cannot be wiped between them has the
container replaced. Containers are labelled with their service and removed when that has gone.
"""

import contextlib
import json
import os
from collections.abc import Mapping
from functools import partial
from itertools import count
from pathlib import Path
from typing import Any

import docker
from docker.errors import DockerException
from pydantic import BaseModel, ConfigDict

from sandbox.tiers import NotOffered, Slot, seccomp
from sandbox.tiers.cgroup import born
from sandbox.tiers.container import Container, Launch
from sandbox.tiers.inside import warm
from sandbox.tiers.inside.place import HOME, SCRATCH
from sandbox.tiers.namespaces import ENVIRONMENT
from sandbox.tiers.shipment import shipment
from sandbox.tiers.slot import WarmSlot

LABEL = "posttrain.sandbox"
"""Of each container of ours, with the service it belongs to."""

_CAPABILITIES = ("SETUID", "SETGID", "SETPCAP", "KILL", "CHOWN", "DAC_OVERRIDE", "FOWNER")
"""What its supervisor needs: to be another user, and to clean up after that; programs have none."""
_SEARCH = "/sandbox/bin:/usr/local/bin:/usr/bin:/bin"
_taken: set[int] = set()


class Settings(BaseModel):
    """`image` has python3 and the other languages' tools (see Dockerfile). `runtime`: e.g. runsc.

    `files_mb` bounds each writable file system of a container, `processes` all in it. Slots run
    as users counted from `first_user`, which must be nobody's.
    """

    model_config = ConfigDict(extra="forbid", frozen=True)

    image: str = "posttrain-sandbox"
    runtime: str | None = None
    preload: tuple[str, ...] = ("numpy", "numpy.random")
    recycle_after: int = 1000
    files_mb: int = 256
    processes: int = 1100
    first_user: int = 65001


class Docker:
    """The tier; NotOffered where no daemon answers or the image is missing."""

    name = "docker"

    def __init__(self, settings: Settings | None = None) -> None:
        self._settings = settings or Settings()
        try:
            self._client = docker.from_env()
            self._client.images.get(self._settings.image)
            self._reap()
        except docker.errors.ImageNotFound:
            raise NotOffered(
                f"the image {self._settings.image} is missing: build it from sandbox/tiers/"
                "Dockerfile, or name another that has python3"
            ) from None
        except DockerException as fault:
            raise NotOffered(f"no Docker daemon answers ({fault}); start one") from None
        self._rules = seccomp.program_filter(accounted=True)

    async def slot(self) -> Slot:
        """As `sandbox.tiers.Tier`."""
        number = next(number for number in count() if number not in _taken)
        _taken.add(number)
        made = partial(Container, self._client, self._launch(number))
        slot = WarmSlot(made, self._settings.recycle_after, partial(_taken.discard, number))
        try:
            await slot.warm()
        except BaseException:
            await slot.close()
            raise
        return slot

    def enforces(self) -> Mapping[str, str]:
        """As `sandbox.tiers.Tier`."""
        by_us = "the slot's supervisor, another user's process, kills it"
        runtime = self._settings.runtime or "the daemon's default runtime"
        return {
            "wall": by_us,
            "cpu": by_us,
            "memory": "the container's control group",
            "processes": "RLIMIT_NPROC of a user of its own; the container's control group",
            "output": by_us,
            "files": "RLIMIT_FSIZE; tmpfs of a bounded size and number of inodes",
            "filesystem": "the container's read-only image",
            "network": "a network namespace with a loopback only",
            "processes of others": "the container; its own are another user's",
            "shared memory": "the container, replaced once a program left any",
            "system calls": "seccomp filters; no capabilities; no new privileges",
            "user": f"a user of its own (from {self._settings.first_user}), under {runtime}",
        }

    def _reap(self) -> None:
        """Remove containers of services that no longer run, as far as that can be seen from here.

        The number of a process means nothing in another process namespace, or on another machine.
        """
        here = _service().split("-", 2)[2]
        for one in self._client.containers.list(all=True, filters={"label": LABEL}):
            pid, start, where = one.labels[LABEL].split("-", 2)
            if where == here and str(born(int(pid))) != start:
                with contextlib.suppress(docker.errors.APIError):  # Going already.
                    one.remove(force=True)

    def _launch(self, number: int) -> Launch:
        user = self._settings.first_user + number
        environment = {"PATH": _SEARCH, **ENVIRONMENT}
        own = {
            "PYTHONPATH": warm.HERE,
            warm.PRELOAD: ",".join(self._settings.preload),
            warm.USER: str(user),
        }
        return Launch(
            options=self._options(user),
            files=shipment("container", self._rules),
            environment=environment,
            own_environment=own,
        )

    def _options(self, user: int) -> dict[str, Any]:
        """How its container is made."""
        size = f"size={self._settings.files_mb}m,nr_inodes=4096"
        places = {HOME: f"rw,exec,nosuid,nodev,{size},uid={user},gid={user},mode=0755"}
        places |= dict.fromkeys(SCRATCH, f"rw,exec,nosuid,nodev,{size},mode=1777")
        places["/sandbox"] = "rw,exec,nosuid,nodev,size=16m,mode=0755"
        filtered = json.dumps(seccomp.container_profile())
        return {
            "image": self._settings.image,
            "runtime": self._settings.runtime,
            "stdin_open": True,
            "auto_remove": True,
            "network_mode": "none",
            "ipc_mode": "private",
            "read_only": True,
            "cap_drop": ["ALL"],
            "cap_add": list(_CAPABILITIES),
            "security_opt": ["no-new-privileges", f"seccomp={filtered}"],
            "user": "0:0",
            "hostname": "sandbox",
            "tmpfs": places,
            "pids_limit": self._settings.processes,
            "log_config": docker.types.LogConfig(type="none"),
            "labels": {LABEL: _service()},
        }


def _service() -> str:
    """This process: its number and start, and the process namespace and machine they hold in."""
    namespace = os.stat("/proc/self/ns/pid").st_ino
    boot = Path("/proc/sys/kernel/random/boot_id").read_text().strip()
    return f"{os.getpid()}-{born(os.getpid())}-{namespace}-{boot}"
