"""A program's place in a container that may make no namespaces: shared, and wiped after each.

The init is root there, a child of the container's first process; programs are another user.
Whatever a wipe does not reach makes the place dirty, and the container is replaced.
"""

import os
from collections.abc import Mapping, Sequence

from sandbox.tiers.inside import kernel
from sandbox.tiers.inside.place import (
    DIRTY,
    HOME,
    SCRATCH,
    Fault,
    Fresh,
    network_used,
    taken,
)

_QUEUES = "/dev/mqueue"
_SHARED = ("/proc/sysvipc/shm", "/proc/sysvipc/msg", "/proc/sysvipc/sem")


class Wiped(Fresh):
    """The container's own file systems, bounded when it was made."""

    def __init__(self, user: int) -> None:
        self._user = user

    def enter(self, size: int) -> None:
        """Take over the place, and orphans that programs make."""
        if os.getppid() != 1:  # The init will kill all it can see but the first process.
            raise Fault("the init is not a child of the container's first process")
        kernel.adopt_orphans()

    def become_its_user(self) -> None:
        """In the program's process: its user from now on."""
        os.setgroups([])
        os.setresgid(self._user, self._user, self._user)
        os.setresuid(self._user, self._user, self._user)
        kernel.set_dumpable(True)  # As it is again after a change of user.

    def put(self, files: Mapping[str, bytes]) -> None:
        """Write the program's files, its own and executable."""
        super().put(files)
        for name in files:
            os.chown(f"{HOME}/{name}", self._user, self._user)

    def take(self, names: Sequence[str]) -> dict[str, bytes]:
        """As `taken`, from the program's directory."""
        directory = os.open(HOME, os.O_PATH | os.O_DIRECTORY)
        try:
            return taken(directory, names)
        finally:
            os.close(directory)

    def leave(self) -> int:
        """Wipe all that the program wrote; the exit code of its init."""
        try:
            for directory in (HOME, *SCRATCH):
                _empty(directory)
        except (OSError, RecursionError):
            return DIRTY
        queues = os.path.isdir(_QUEUES) and os.listdir(_QUEUES)
        return DIRTY if queues or any(map(_has_entries, _SHARED)) or network_used() else 0


def _empty(directory: str) -> None:
    with os.scandir(directory) as entries:
        for entry in entries:
            if entry.is_dir(follow_symlinks=False):
                _empty(entry.path)
                os.rmdir(entry.path)
            else:
                os.unlink(entry.path)


def _has_entries(table: str) -> bool:
    try:
        with open(table) as file:
            return len(file.readlines()) > 1
    except OSError:
        return True
