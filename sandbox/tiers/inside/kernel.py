"""System calls that Python has no function for; each raises OSError as those of `os` do."""

import ctypes
import errno
import os

CLONE_NEWNS = 0x00020000
CLONE_NEWIPC = 0x08000000
CLONE_NEWPID = 0x20000000
CLONE_NEWNET = 0x40000000

MS_RDONLY, MS_NOSUID, MS_NODEV, MS_NOEXEC = 1, 2, 4, 8

_PR_SET_DUMPABLE = 4
_PR_SET_SECCOMP = 22
_PR_CAPBSET_DROP = 24
_PR_SET_CHILD_SUBREAPER = 36
_PR_SET_NO_NEW_PRIVS = 38
_PR_CAP_AMBIENT, _PR_CAP_AMBIENT_CLEAR_ALL = 47, 4
_SECCOMP_MODE_FILTER = 2
_CAPABILITY_VERSION_3 = 0x20080522
_CAPABILITIES = 64

_libc = ctypes.CDLL(None, use_errno=True)


def _call(name: str, *arguments: int | bytes | ctypes.Array[ctypes.c_uint32] | None) -> None:
    if getattr(_libc, name)(*arguments) < 0:
        number = ctypes.get_errno()
        raise OSError(number, f"{name}: {os.strerror(number)}")


def _prctl(option: int, value: int, third: int | None = 0) -> None:
    # Whole words: the variadic function reads 64 bits of each.
    words = [ctypes.c_ulong(word or 0) for word in (value, third, 0, 0)]
    if _libc.prctl(option, *words) < 0:
        number = ctypes.get_errno()
        raise OSError(number, f"prctl({option}): {os.strerror(number)}")


def unshare(flags: int) -> None:
    """Move this process (its next child, for CLONE_NEWPID) into new namespaces."""
    _call("unshare", flags)


def setns(descriptor: int, flags: int) -> None:
    """Move this process (its next child, for CLONE_NEWPID) into the namespace of a descriptor."""
    _call("setns", descriptor, flags)


def mount(kind: str, target: str, flags: int, options: str = "") -> None:
    """Mount a new file system of a `kind` that has no device."""
    _call("mount", kind.encode(), target.encode(), kind.encode(), flags, options.encode())


def set_dumpable(dumpable: bool) -> None:
    """Whether others of the same user may look into this process or stop it by ptrace."""
    _prctl(_PR_SET_DUMPABLE, int(dumpable))


def adopt_orphans() -> None:
    """Have processes below this one become its children when their parents end."""
    _prctl(_PR_SET_CHILD_SUBREAPER, 1)


def bound_capabilities() -> None:
    """Have nothing that this process executes gain a capability."""
    for capability in range(_CAPABILITIES):
        try:
            _prctl(_PR_CAPBSET_DROP, capability)
        except OSError as fault:
            if fault.errno != errno.EINVAL:
                raise
            return  # The kernel knows no capability of this number, nor of higher ones.


def drop_capabilities() -> None:
    """Give up every capability of this process."""
    _prctl(_PR_CAP_AMBIENT, _PR_CAP_AMBIENT_CLEAR_ALL)
    header = (ctypes.c_uint32 * 2)(_CAPABILITY_VERSION_3, 0)
    _call("capset", header, (ctypes.c_uint32 * 6)())


def load_filter(instructions: bytes) -> None:
    """Put this process, and all it will ever start, under a seccomp filter (BPF, 8 bytes each)."""

    class Filter(ctypes.Structure):
        _fields_ = (("length", ctypes.c_ushort), ("instructions", ctypes.c_char_p))

    _prctl(_PR_SET_NO_NEW_PRIVS, 1)
    loaded = Filter(len(instructions) // 8, instructions)
    _prctl(_PR_SET_SECCOMP, _SECCOMP_MODE_FILTER, ctypes.addressof(loaded))
