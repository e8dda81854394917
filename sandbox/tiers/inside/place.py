"""Where a program lives, made for it and gone with it."""

import os
import socket
import stat
import struct
from collections.abc import Mapping, Sequence
from fcntl import ioctl

from sandbox.tiers.inside import kernel

HOME = "/box"
SCRATCH = ("/tmp", "/dev/shm")
PROGRAM = 2
"""Number of a program's first process in its namespace."""

_INODES = 4096
_FLAGS = kernel.MS_NOSUID | kernel.MS_NODEV
_SIOCGIFFLAGS, _SIOCSIFFLAGS, _IFF_UP = 0x8913, 0x8914, 1
_LOOPBACK = b"lo"


class Fault(Exception):
    """The program could not be started; it is not to blame."""


class Fresh:
    """Fresh namespaces and file systems around one program, its namespace's second process.

    They end with the last of their processes; the root file system around them is read-only.
    """

    def __init__(self) -> None:
        self._namespace = os.open("/proc/self/ns/pid", os.O_RDONLY)

    def open(self) -> int | None:
        """Have this process's next child live there; the number of who waits there, if any does."""
        kernel.unshare(kernel.CLONE_NEWPID)
        return kernel.start_waiting()

    def shut(self, waiting: int | None) -> None:
        """Leave it, once all in there is being ended; blocks until it has gone."""
        assert waiting is not None
        os.waitpid(waiting, 0)
        kernel.setns(self._namespace, kernel.CLONE_NEWPID)
        if network_used():
            _renew_network()

    def clean(self) -> bool:
        """Whether nothing is left of the program, once its processes have gone."""
        return True

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
    """Whether connections of ended processes may linger in this network namespace."""
    with open("/proc/net/sockstat") as file:
        counts = next(line.split()[1:] for line in file if line.startswith("TCP:"))
    of = dict(zip(counts[::2], map(int, counts[1::2]), strict=False))
    # Orphans are counted for the whole machine: none is ours unless there were connections here.
    return bool(of["tw"] or (of["orphan"] and _connections()))


def _connections() -> int:
    """How many have been opened in this network namespace since it was made."""
    with open("/proc/net/snmp") as file:
        names, values = (line.split()[1:] for line in file if line.startswith("Tcp:"))
    found = dict(zip(names, map(int, values), strict=True))
    return found["ActiveOpens"] + found["PassiveOpens"]


def _renew_network() -> None:
    """A fresh network namespace, with its loopback up."""
    kernel.unshare(kernel.CLONE_NEWNET)
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as handle:
        request = struct.pack("16sH14x", _LOOPBACK, 0)
        flags = struct.unpack("16sH14x", ioctl(handle, _SIOCGIFFLAGS, request))[1]
        ioctl(handle, _SIOCSIFFLAGS, struct.pack("16sH14x", _LOOPBACK, flags | _IFF_UP))
