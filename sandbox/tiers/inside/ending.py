"""How a warm interpreter ends with its program: as ever, but without taking itself apart.

To free each object that was there before the program costs more than all else in a short one: it
writes to each page they lie on, and so has it copied, before all memory goes. What a program can
see of its end happens: its threads are joined, its handlers called, its modules and objects taken
down in their order, its streams flushed. After that it leaves at once, if the exit code is known.
What a program has hung on a module that was there before it is not taken down.
"""

import atexit
import ctypes
import io
import os
import sys
from collections.abc import Callable, Mapping
from types import TracebackType
from typing import Any

_libc = ctypes.PyDLL(None)


def prepare() -> None:
    """Have the modules there are now outlive the program; to be called before any handler is set.

    So this handler, the first to be registered, is the last to be called.
    """
    kept = set(sys.modules) - {"sys", "builtins", "__main__"}
    for name in kept:
        ctypes.pythonapi.Py_IncRef(ctypes.py_object(sys.modules[name]))
    atexit.register(_finish, kept, vars(sys.modules["__main__"]))


class _Last:
    """Ends the process as it is itself ended: with the last of what `sys` holds.

    By then all of the program's own has been taken down, and its streams have been flushed.
    """

    def __init__(self, code: int) -> None:
        self._code = code

    def __del__(
        self, flush: Callable[[None], int] = _libc.fflush, leave: Callable[[int], None] = os._exit
    ) -> None:
        flush(None)  # The streams of C, which a program may have used too.
        leave(self._code)


def _finish(kept: set[str], main: Mapping[str, Any]) -> None:
    for name in kept:
        sys.modules.pop(name, None)
    code = _exit_code(main)
    if code is not None and _flushed(sys.stdout) and _flushed(sys.stderr):
        vars(sys)["last"] = _Last(code)


def _exit_code(main: Mapping[str, Any]) -> int | None:
    """The exit code, if it can be told from what is left.

    At the end of a script Python takes back the names it gave it, but not when it is told to exit.
    A script that has cleared its own names tells nothing.
    """
    taken = "__file__" not in main and "__cached__" not in main
    cleared = "__name__" not in main or "__builtins__" not in main
    if not taken or cleared:
        return None
    if not hasattr(sys, "last_type"):
        return 0
    return 1 if _uncaught(main) else None


def _uncaught(main: Mapping[str, Any]) -> bool:
    """Whether what was raised last has ended the script: its frame stopped right there."""
    trace = getattr(sys, "last_traceback", None)
    if not isinstance(trace, TracebackType) or sys.last_type is KeyboardInterrupt:
        return False
    frame = trace.tb_frame
    return (
        frame.f_globals is main
        and frame.f_code.co_name == "<module>"
        and frame.f_back is None
        and frame.f_lasti == trace.tb_lasti
    )


def _flushed(stream: object) -> bool:
    """Whether it is a stream as Python makes them, and sound: else the exit code may be 120."""
    if type(stream) is not io.TextIOWrapper:
        return False
    try:
        stream.flush()
    except (OSError, ValueError):
        return False
    return True
