"""System calls that Python has no function for; each raises OSError as those of `os` do."""

import ctypes
import errno
import mmap
import os
import signal

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
_OF_ITSELF = (ctypes.c_uint32 * 2)(_CAPABILITY_VERSION_3, 0)
_NO_CAPABILITIES = (ctypes.c_uint32 * 6)()

_CLONE_VM = 0x00000100
_CLONE_FILES = 0x00000400

_libc = ctypes.CDLL(None, use_errno=True)
_libc.prctl.argtypes = (ctypes.c_int, *[ctypes.c_ulong] * 4)  # It reads 64 bits of each.
_stack = mmap.mmap(-1, 65536)


def _call(name: str, *arguments: int | bytes | ctypes.Array[ctypes.c_uint32] | None) -> None:
    if getattr(_libc, name)(*arguments) < 0:
        number = ctypes.get_errno()
        raise OSError(number, f"{name}: {os.strerror(number)}")


def _prctl(option: int, value: int, third: int | None = 0) -> None:
    if _libc.prctl(option, value, third or 0, 0, 0) < 0:
        number = ctypes.get_errno()
        raise OSError(number, f"prctl({option}): {os.strerror(number)}")


def unshare(flags: int) -> None:
    """Move this process (its next child, for CLONE_NEWPID) into new namespaces."""
    _call("unshare", flags)


def start_waiting() -> int:
    """Start a process that does nothing, and as the first of a process namespace does its duty.

    It shares this process's memory, and so costs next to nothing; it runs none of our code, only
    the C library's `pause`, and reaps its children by ignoring their end. Its number is returned.
    """
    before = signal.signal(signal.SIGCHLD, signal.SIG_IGN)
    try:
        top = ctypes.addressof(ctypes.c_char.from_buffer(_stack)) + len(_stack)
        wait = ctypes.cast(_libc.pause, ctypes.c_void_p)
        pid: int = _libc.clone(
            wait, ctypes.c_void_p(top), _CLONE_VM | _CLONE_FILES | signal.SIGCHLD, None
        )
    finally:
        signal.signal(signal.SIGCHLD, before)
    if pid < 0:
        number = ctypes.get_errno()
        raise OSError(number, f"clone: {os.strerror(number)}")
    return pid


def give_back_memory() -> None:
    """Return freed memory to the kernel, where the C library can."""
    trim = getattr(_libc, "malloc_trim", None)
    if trim is not None:
        trim(0)


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
    """Have nothing that this process, or one it starts, executes gain a capability."""
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
    _call("capset", _OF_ITSELF, _NO_CAPABILITIES)


class Filter(ctypes.Structure):
    """A seccomp filter: BPF instructions of 8 bytes each."""

    _fields_ = (("length", ctypes.c_ushort), ("instructions", ctypes.c_char_p))


def load_filter(instructions: bytes) -> None:
    """Put this process, and all it will ever start, under a seccomp filter."""
    _prctl(_PR_SET_NO_NEW_PRIVS, 1)
    loaded = Filter(len(instructions) // 8, instructions)
    _prctl(_PR_SET_SECCOMP, _SECCOMP_MODE_FILTER, ctypes.addressof(loaded))
