"""Kinds of errors that end a command: each has a code, an exit code, a cause and a remedy.

Every error line ends with its code, under which docs/errors.md says more.
"""

import errno
import re
from dataclasses import dataclass
from enum import Enum

from pydantic import ValidationError

from posttrain.liveness import Stalled
from posttrain.registry import Refused
from posttrain.services import ServiceFailed


class Exit(Enum):
    """What a command exits with."""

    DONE = 0
    STAGE_FAILED = 1
    WRONG_INPUT = 2
    GATE_REFUSED = 3
    MACHINE_FAILED = 4


@dataclass(frozen=True)
class Kind:
    """A kind of error; its code begins with the digit of its exit code."""

    code: str
    exit: Exit
    cause: str
    remedy: str


STAGE_FAILED = Kind(
    "E101", Exit.STAGE_FAILED,
    "a stage raised, or its process died four times",
    "read the log that the line names; the same command continues from the last checkpoint",
)  # fmt: skip
INTERRUPTED = Kind(
    "E102", Exit.STAGE_FAILED,
    "Ctrl-C or SIGTERM; all that was started has ended",
    "run the same command again to continue",
)  # fmt: skip
WRONG_INPUT = Kind(
    "E201", Exit.WRONG_INPUT,
    "a recipe, an address or a file says what cannot be",
    "change what the line names: it has file and line, or the address",
)  # fmt: skip
WRONG_USE = Kind(
    "E202", Exit.WRONG_INPUT,
    "a command, an option or an argument that does not exist or is missing",
    "see `--help` of the command",
)  # fmt: skip
WRONG_VALUE = Kind(
    "E203", Exit.WRONG_INPUT,
    "a value outside of what its field allows, given to a command or in a file",
    "give a value as the line says",
)  # fmt: skip
UNUSABLE_PATH = Kind(
    "E204", Exit.WRONG_INPUT,
    "a path may not be read or written, or is no file or folder as it should be",
    "give another path, or rights to this one",
)  # fmt: skip
NOT_INSTALLED = Kind(
    "E205", Exit.WRONG_INPUT,
    "the command needs a package that comes with an extra",
    "`make install`, or install the extra that has the package",
)  # fmt: skip
GATE_REFUSED = Kind(
    "E301", Exit.GATE_REFUSED,
    "a gate does not hold, so the alias stays where it is",
    "the refusal has its figures; a waiver lets one checkpoint pass, and the history keeps why",
)  # fmt: skip
SERVICE_FAILED = Kind(
    "E401", Exit.MACHINE_FAILED,
    "a service could not be started, keeps dying, or does not answer",
    "read its log, which the line names; then run the same command again",
)  # fmt: skip
STALLED = Kind(
    "E402", Exit.MACHINE_FAILED,
    "a stage or a component of it was silent for longer than its bound",
    "`posttrain stalls RUN` tells more; run the same command again, or raise the recipe's `stalls`",
)  # fmt: skip
DISK_FULL = Kind(
    "E403", Exit.MACHINE_FAILED,
    "the disk of the store, or the one for temporary files, is full",
    "free some space and run the same command again; whole artifacts stay whole",
)  # fmt: skip
SYSTEM = Kind(
    "E404", Exit.MACHINE_FAILED,
    "the operating system refused: a connection, a process, a device",
    "see what the line says of it; then run the same command again",
)  # fmt: skip
INTERNAL = Kind(
    "E499", Exit.MACHINE_FAILED,
    "a fault of ours: an error nobody foresaw",
    "run it once more with `--debug` and report what it prints",
)  # fmt: skip

CATALOGUE = (
    STAGE_FAILED, INTERRUPTED, WRONG_INPUT, WRONG_USE, WRONG_VALUE, UNUSABLE_PATH, NOT_INSTALLED,
    GATE_REFUSED, SERVICE_FAILED, STALLED, DISK_FULL, SYSTEM, INTERNAL,
)  # fmt: skip

_BY_TYPE: tuple[tuple[type[Exception], Kind], ...] = (
    (Refused, GATE_REFUSED), (ValueError, WRONG_INPUT), (ServiceFailed, SERVICE_FAILED),
    (Stalled, STALLED), (RuntimeError, STAGE_FAILED),
)  # fmt: skip
"""The first that fits tells."""

_UNUSABLE = (
    errno.EACCES, errno.EPERM, errno.EROFS, errno.ENOENT, errno.ENOTDIR, errno.EISDIR,
    errno.ENAMETOOLONG,
)  # fmt: skip
"""Faults of a path we were given, rather than of the machine."""

_INTERRUPTED = re.compile(r"interrupted\b")


def line(message: str, kind: Kind) -> str:
    """What is printed of an error."""
    return f"error: {message} ({kind.code})\n"


def told(fault: Exception) -> tuple[str, Kind]:
    """What to say of a fault that ends a command, in one line where it has one, and its kind."""
    if isinstance(fault, OSError):
        return _told_of_system(fault)
    if isinstance(fault, ModuleNotFoundError) and _of_others(fault.name or ""):
        needed = "this command needs the CPU environment: run `make install`"
        return f"{needed} (there is no module {fault.name} here)", NOT_INSTALLED
    if isinstance(fault, ValidationError):
        first = fault.errors(include_url=False)[0]
        place = ".".join(map(str, first["loc"]))
        return f"{place}: {first['msg']} (given {first['input']!r})", WRONG_VALUE
    if isinstance(fault, RuntimeError) and _INTERRUPTED.match(str(fault)):
        return str(fault), INTERRUPTED
    for kind, found in _BY_TYPE:
        if isinstance(fault, kind):
            return str(fault), found
    return f"internal error: {fault.__class__.__name__}: {fault}; --debug shows where", INTERNAL


def _of_others(module: str) -> bool:
    """Whether a module comes with an extra, rather than with us."""
    return module.partition(".")[0] not in ("", "posttrain", "rewards", "sandbox")


def _told_of_system(fault: OSError) -> tuple[str, Kind]:
    if fault.errno == errno.ENOSPC:
        return "disk full; free some space and run the same command again", DISK_FULL
    if fault.errno in _UNUSABLE and fault.filename is not None:
        return f"{fault.filename} cannot be used: {fault.strerror}", UNUSABLE_PATH
    return str(fault), SYSTEM
