"""Run as a script: the steps from the service to bubblewrap that need the service's privileges.

The process joins its control groups, makes visible what its user may not reach, becomes a user
that is nobody's, and then executes bubblewrap. So the user namespace belongs to a user with no
rights on the host: what escapes it is not root. Standard library only; argv[1] is a `Launch`.
"""

import ctypes
import json
import os
import resource
import signal
import sys
from typing import Any

_CLONE_NEWNS = 0x00020000
_MS_NOSUID, _MS_NODEV, _MS_BIND, _MS_REC, _MS_PRIVATE = 2, 4, 4096, 16384, 1 << 18
_PR_SET_PDEATHSIG = 1
_ADDR_NO_RANDOMIZE = 0x0040000
_STACK = 64 * 2**20
_SHOWN = "/tmp"  # Exists everywhere; in this process's own mount namespace it is ours.

_libc = ctypes.CDLL(None, use_errno=True)


def main(launch: dict[str, Any]) -> None:
    """Become bubblewrap; exits with a line on stderr if that cannot be."""
    try:
        for path in launch["groups"]:
            with open(path, "w") as file:
                file.write("0")
        if launch["user"] is not None:
            _show(launch["trees"])
            os.setgroups([])
            os.setresgid(launch["user"], launch["user"], launch["user"])
            os.setresuid(launch["user"], launch["user"], launch["user"])
        _die_with(launch["parent"])
        _prepare()
        descriptors = [_copied(content) for content in launch["contents"]]
        known = {f"{{{position}}}": str(one) for position, one in enumerate(descriptors)}
        os.execve(
            launch["bubblewrap"],
            [known.get(argument, argument) for argument in launch["argv"]],
            launch["env"],
        )
    except OSError as fault:
        sys.exit(f"launcher: {fault}")


def _show(trees: list[str]) -> None:
    """Have each tree at `/tmp/<position>`, whatever directories it lies in."""
    _check(_libc.unshare(_CLONE_NEWNS), "unshare")
    _mount("none", "/", _MS_REC | _MS_PRIVATE)
    handles = [os.open(tree, os.O_PATH) for tree in trees]
    _mount("tmpfs", _SHOWN, _MS_NOSUID | _MS_NODEV, "tmpfs", "mode=0755")
    for position, handle in enumerate(handles):
        target = f"{_SHOWN}/{position}"
        os.mkdir(target, 0o755)
        _mount(f"/proc/self/fd/{handle}", target, _MS_BIND | _MS_REC)
        os.close(handle)


def _mount(source: str, target: str, flags: int, kind: str = "none", options: str = "") -> None:
    words = (word.encode() for word in (source, target, kind))
    _check(_libc.mount(*words, flags, options.encode()), f"mount {source} on {target}")


def _die_with(parent: int) -> None:
    """Have the kernel kill this process with `parent`."""
    _check(_libc.prctl(_PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0), "prctl")
    if os.getppid() != parent:
        sys.exit("launcher: the service has gone")


def _prepare() -> None:
    """Settings that programs inherit: a deep stack and, for equal runs, equal addresses."""
    hard = resource.getrlimit(resource.RLIMIT_STACK)[1]
    soft = _STACK if hard == resource.RLIM_INFINITY else min(_STACK, hard)
    resource.setrlimit(resource.RLIMIT_STACK, (soft, hard))
    _libc.personality(_ADDR_NO_RANDOMIZE)  # Some containers refuse it; nothing depends on it.


def _copied(content: str) -> int:
    """A descriptor to read `content` (one byte a character) from."""
    descriptor = os.memfd_create("content", 0)
    os.write(descriptor, content.encode("latin-1"))
    os.lseek(descriptor, 0, os.SEEK_SET)
    return descriptor


def _check(result: int, what: str) -> None:
    if result < 0:
        number = ctypes.get_errno()
        raise OSError(number, f"{what}: {os.strerror(number)}")


if __name__ == "__main__":
    main(json.loads(sys.argv[1]))
