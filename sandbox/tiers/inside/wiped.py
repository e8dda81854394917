"""A program's place in a container that may make no namespaces: shared, and wiped after each.

Ours are root there, programs another user. Where a wipe does not reach all of what a program may
have left, the container is replaced.
"""

import os
from collections.abc import Mapping

from sandbox.tiers.inside import kernel
from sandbox.tiers.inside.place import HOME, SCRATCH, Fresh, network_used

_QUEUES = "/dev/mqueue"
_SHARED = ("/proc/sysvipc/shm", "/proc/sysvipc/msg", "/proc/sysvipc/sem")


class Wiped(Fresh):
    """The container's own file systems, bounded when it was made."""

    def __init__(self, user: int) -> None:
        self._user = user

    def open(self) -> int | None:
        """It is always there, and nobody waits in it."""
        return None

    def shut(self, waiting: int | None) -> None:
        """It stays."""

    def enter(self, size: int) -> None:
        """It has been made, and bounded, with the container."""

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

    def clean(self) -> bool:
        """Wipe all that the program wrote; whether nothing else is left of it."""
        try:
            for directory in (HOME, *SCRATCH):
                _empty(directory)
        except (OSError, RecursionError):
            return False
        queues = os.path.isdir(_QUEUES) and os.listdir(_QUEUES)
        return not (queues or any(map(_has_entries, _SHARED)) or network_used())


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
