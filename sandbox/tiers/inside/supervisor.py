"""The slot's warm interpreter: forks an init for each program, in a fresh process namespace.

It is `python FILE` that stops on its way, while it imports `sitecustomize`. Each program is a fork
that goes on from there, so that the interpreter itself runs the program, as it always would: its
`__main__`, tracebacks, exit code, flushing, and the whole of the main thread's stack.

Control socket (packets): `{ready}` at the start; then one packet a run, with
descriptors [run socket, stdin, the group's processor counter, its table of kills (or stand-ins),
channel if there is one], answered by `{status}` once nothing of the run is left. It ends when the
service closes the socket.
"""

import fcntl
import json
import os
import select
import socket
import struct
import sys
from dataclasses import dataclass

from sandbox.tiers.inside import init, kernel, warm
from sandbox.tiers.inside.place import DIRTY, Fresh

CONTROL = "SANDBOX_CONTROL"
_PACKET = 4096
_MOST_DESCRIPTORS = 5
_SIOCGIFFLAGS, _SIOCSIFFLAGS, _IFF_UP = 0x8913, 0x8914, 1
_LOOPBACK = b"lo"


@dataclass(frozen=True)
class Standing:
    """What the supervisor holds all the time: descriptors, and the programs' seccomp filter."""

    control: int
    proc: int
    namespace: int
    rules: bytes


def main() -> None:
    """Serve runs; returns only in a program's process."""
    warm.guard()
    standing = _stand()
    _forbid_user_namespaces()
    warm.warm_up()
    _say(standing, {"ready": sys.version.split()[0]})
    while not _serve(standing):
        pass


def _stand() -> Standing:
    control = int(os.environ.pop(CONTROL))
    return Standing(
        control=fcntl.fcntl(control, fcntl.F_DUPFD_CLOEXEC, 32),
        proc=os.open("/proc", os.O_PATH | os.O_DIRECTORY),
        namespace=os.open("/proc/self/ns/pid", os.O_RDONLY),
        rules=warm.rules(),
    )


def _forbid_user_namespaces() -> None:
    with open("/proc/sys/user/max_user_namespaces", "w") as file:
        file.write("0")


def _say(standing: Standing, message: dict[str, object]) -> None:
    with socket.socket(fileno=os.dup(standing.control)) as control:
        control.send(json.dumps(message).encode())


def _serve(standing: Standing) -> bool:
    """One run; whether this is now the program's process."""
    with socket.socket(fileno=os.dup(standing.control)) as control:
        message, descriptors, _, _ = socket.recv_fds(control, _PACKET, _MOST_DESCRIPTORS)
    if not message:
        os._exit(0)
    kernel.unshare(kernel.CLONE_NEWPID)
    pid = os.fork()
    if pid == 0:
        try:
            init.attend(descriptors, Fresh(), standing.proc, standing.rules)
        except BaseException:  # noqa: BLE001 - an init must never go on to run the program itself.
            os._exit(1)
        return True
    for descriptor in descriptors:
        os.close(descriptor)
    kernel.setns(standing.namespace, kernel.CLONE_NEWPID)
    status = _wait(standing, pid)
    if os.WIFEXITED(status) and os.WEXITSTATUS(status) == DIRTY:
        _renew_network()
    _say(standing, {"status": status})
    return False


def _wait(standing: Standing, pid: int) -> int:
    """The status of an init, and so the end of its namespace; ends with the service."""
    ended = os.pidfd_open(pid)
    poll = select.poll()
    poll.register(ended, select.POLLIN)
    poll.register(standing.control, 0)  # Only its hang-up.
    if any(descriptor == standing.control for descriptor, _ in poll.poll()):
        os._exit(0)
    os.close(ended)
    return os.waitpid(pid, 0)[1]


def _renew_network() -> None:
    """A fresh network namespace, with its loopback up."""
    kernel.unshare(kernel.CLONE_NEWNET)
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as handle:
        request = struct.pack("16sH14x", _LOOPBACK, 0)
        flags = struct.unpack("16sH14x", fcntl.ioctl(handle, _SIOCGIFFLAGS, request))[1]
        fcntl.ioctl(handle, _SIOCSIFFLAGS, struct.pack("16sH14x", _LOOPBACK, flags | _IFF_UP))
