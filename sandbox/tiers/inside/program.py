"""The last steps before a program starts: it gives up all it could misuse, then becomes it.

Each step holds for every process the program starts: none can be taken back.
"""

import contextlib
import fcntl
import os
import random
import resource
import signal
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from sandbox.tiers.inside import kernel
from sandbox.tiers.inside.place import HOME, Fresh

GATE = 4  # After the program's own: its standard streams and its channel.
STARTED = b"."
_ABOVE = 16  # Descriptors are lifted here, out of the way of those being laid.
_OPEN_FILES = 1024


@dataclass(frozen=True)
class Streams:
    """Descriptors: the program's own, and `gate`, where STARTED is written when it starts."""

    stdin: int
    stdout: int
    stderr: int
    gate: int
    channel: int | None


def begin(
    order: Mapping[str, Any], streams: Streams, place: Fresh, proc: int, rules: bytes
) -> None:
    """As `prepare`, but a fault is told through the gate, and the process then ends."""
    told = os.dup(streams.gate)
    try:
        prepare(order, streams, place, proc, rules)
    except Exception as fault:  # noqa: BLE001 - whatever it is, the program must not run.
        for gate in (told, GATE):
            with contextlib.suppress(OSError):  # Closed, once the descriptors have been laid.
                os.write(gate, described(fault))
        os._exit(1)


def described(fault: BaseException) -> bytes:
    """A fault in the words told through the gate."""
    return f"{type(fault).__name__}: {fault}".encode()


def prepare(
    order: Mapping[str, Any], streams: Streams, place: Fresh, proc: int, rules: bytes
) -> None:
    """Return as the program's own interpreter, about to run it; or never, having become it.

    `proc` is a descriptor of a writable /proc. OSError: nothing of the program has run.
    """
    os.setsid()
    kernel.set_dumpable(True)  # Else its own files in /proc are not its own.
    _offer_to_be_killed(proc)
    _lay(streams)
    os.chdir(HOME)
    _bound(order["limits"], order["threads"])
    place.become_its_user()
    kernel.drop_capabilities()
    _reset_signals(keep_ours=order["script"])
    kernel.load_filter(rules)
    if order["script"]:
        _disguise(order["argv"])
    os.write(GATE, STARTED)
    os.close(GATE)
    if not order["script"]:
        _become(order["argv"], order["env"])


def _offer_to_be_killed(proc: int) -> None:
    """Be the first to die when memory runs out, before anything that is ours."""
    descriptor = os.open("self/oom_score_adj", os.O_WRONLY, dir_fd=proc)
    os.write(descriptor, b"1000")
    os.close(descriptor)


def _lay(streams: Streams) -> None:
    """Have the program's descriptors from 0, the gate, and no others."""
    given = [streams.stdin, streams.stdout, streams.stderr, streams.channel, streams.gate]
    lifted = [None if fd is None else fcntl.fcntl(fd, fcntl.F_DUPFD, _ABOVE) for fd in given]
    for target, descriptor in enumerate(lifted):
        if descriptor is None:
            os.closerange(target, target + 1)
        else:
            os.dup2(descriptor, target, inheritable=True)
    os.closerange(GATE + 1, resource.getrlimit(resource.RLIMIT_NOFILE)[0])


def _bound(limits: Mapping[str, Any], threads: int | None) -> None:
    """Kernel limits of each process; the whole is bounded from outside.

    None on address space: runtimes that reserve much of it hang.
    """
    processor = int(limits["cpu"]) + 2
    bounds = {
        resource.RLIMIT_CPU: (processor, processor + 1),
        resource.RLIMIT_FSIZE: (limits["files"], limits["files"]),
        resource.RLIMIT_NOFILE: (_OPEN_FILES, _OPEN_FILES),
        resource.RLIMIT_CORE: (1, 1),  # 0 would still feed a dump to a host's crash reporter.
    }
    if threads is not None:
        bounds[resource.RLIMIT_NPROC] = (threads, threads)
    for kind, (soft, hard) in bounds.items():
        highest = resource.getrlimit(kind)[1]
        if highest != resource.RLIM_INFINITY:
            soft, hard = min(soft, highest), min(hard, highest)
        resource.setrlimit(kind, (soft, hard))


def _reset_signals(keep_ours: bool) -> None:
    """Those of a fresh process; of a fresh interpreter where the program is to run in ours."""
    signal.signal(signal.SIGINT, signal.default_int_handler if keep_ours else signal.SIG_DFL)
    if not keep_ours:
        signal.signal(signal.SIGPIPE, signal.SIG_DFL)
        signal.signal(signal.SIGXFSZ, signal.SIG_DFL)


def _become(argv: Sequence[str], env: Mapping[str, str]) -> None:
    """Execute `argv`; what cannot be is told as a shell would."""
    try:
        os.execvpe(argv[0], list(argv), dict(env))
    except OSError as fault:
        missing = isinstance(fault, FileNotFoundError)
        os.write(2, f"{argv[0]}: {fault.strerror}\n".encode())
        os._exit(127 if missing else 126)


def _disguise(argv: Sequence[str]) -> None:
    """Leave the interpreter as `python FILE ...` has it just before it runs FILE.

    Which file that is, it was told at its start; here it gets the arguments.
    """
    sys.argv[1:] = argv[2:]
    sys.orig_argv[:] = argv
    sys.modules.pop("sitecustomize", None)
    random.seed(0)  # Python seeds it anew, and at random, in each fork.
