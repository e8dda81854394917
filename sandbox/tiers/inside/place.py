"""Where a program lives, made for it and gone with it."""

import os
import stat
from collections.abc import Mapping, Sequence

from sandbox.tiers.inside import kernel

HOME = "/box"
SCRATCH = ("/tmp", "/dev/shm")
PROGRAM = 2
"""Number of a program's first process in its namespace."""

DIRTY = 3
"""Exit code of an init whose program may have left something for the next to find."""

_INODES = 4096
_FLAGS = kernel.MS_NOSUID | kernel.MS_NODEV


class Fault(Exception):
    """The program could not be started; it is not to blame."""


class Fresh:
    """Fresh namespaces and file systems around one program, its namespace's second process.

    They end with the last of their processes; the root file system around them is read-only.
    """

    def enter(self, size: int) -> None:
        """Make the place; each of its writable file systems holds at most `size` bytes."""
        if os.getpid() != PROGRAM:  # All of the program dies with its namespace's first process.
            raise Fault("the program is not alone with the first process of a namespace")
        kernel.unshare(kernel.CLONE_NEWNS | kernel.CLONE_NEWIPC)
        # Read-only: else the program could take back its offer to be the first killed for memory.
        kernel.mount("proc", "/proc", _FLAGS | kernel.MS_NOEXEC | kernel.MS_RDONLY)
        bounds = f"size={size},nr_inodes={_INODES}"
        kernel.mount("tmpfs", HOME, _FLAGS, f"mode=0755,{bounds}")
        for directory in SCRATCH:
            kernel.mount("tmpfs", directory, _FLAGS, f"mode=1777,{bounds}")

    def become_its_user(self) -> None:
        """In the program's process: it is its user already."""

    def put(self, files: Mapping[str, bytes]) -> None:
        """Write the program's files, executable."""
        for name, content in files.items():
            descriptor = os.open(f"{HOME}/{name}", os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o755)
            with os.fdopen(descriptor, "wb", buffering=0) as file:
                file.write(content)


def taken(directory: int, names: Sequence[str]) -> dict[str, bytes]:
    """The regular files of these names that the program left; a symbolic link is none."""
    kept = {}
    for name in names:
        flags = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK
        try:
            descriptor = os.open(name, flags, dir_fd=directory)
        except OSError:
            continue
        try:
            if stat.S_ISREG(os.fstat(descriptor).st_mode):
                with os.fdopen(descriptor, "rb", closefd=False) as file:
                    kept[name] = file.read()
        finally:
            os.close(descriptor)
    return kept


def network_used() -> bool:
    """Whether connections of ended processes still linger in this network namespace."""
    with open("/proc/net/sockstat") as file:
        for line in file:
            if line.startswith("TCP:"):
                words = line.split()
                counts = dict(zip(words[1::2], map(int, words[2::2]), strict=False))
                return bool(counts["orphan"] or counts["tw"])
    return False
