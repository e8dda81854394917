"""How the processes of a run are started: as Ray does it, or forked from a zygote.

The zygote's imports take most of a start on a CPU; `warm` begins them early, on a core that is
idle while earlier stages run. It belongs to the Ray job that asked for it and ends with that.
"""

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager

import ray

from posttrain.backends import Profile

_NAME = "rl_zygote"


class _Keeper:
    """Ray actor that holds a zygote for as long as it lives."""

    def __init__(self) -> None:
        from posttrain.backends.cpu.zygote import zygote

        self._stack = ExitStack()
        self._executable = self._stack.enter_context(zygote())

    def executable(self) -> str:
        """What Ray is to start workers with."""
        return self._executable


def warm(profile: Profile) -> object | None:
    """Start a zygote for later runs in this Ray session, if the backend uses one.

    Returns at once; keep the result alive for as long as the zygote is wanted.
    """
    if not profile.forks_workers:
        return None
    keeper: object = ray.remote(_Keeper).options(name=_NAME, num_cpus=0).remote()
    return keeper


@contextmanager
def workers(profile: Profile) -> Iterator[str | None]:
    """Yield the `py_executable` for a run's processes, None for Ray's own way.

    Uses the zygote that `warm` started, else one of its own. To be entered inside a Ray worker:
    forks inherit what Ray's core read from this process's environment.
    """
    if not profile.forks_workers:
        yield None
        return
    from posttrain.backends.cpu.zygote import zygote

    try:
        keeper = ray.get_actor(_NAME)
    except ValueError:  # Ray's word for: there is none
        with zygote() as executable:
            yield executable
    else:
        yield ray.get(keeper.executable.remote(), timeout=60)
