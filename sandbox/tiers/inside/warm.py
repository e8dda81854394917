"""Making an interpreter ready to be forked as `python FILE` many times."""

import atexit
import contextlib
import ctypes
import gc
import importlib
import os
import random
import signal
import sys
from collections.abc import Iterable

from sandbox.tiers.inside import kernel

HERE = "/sandbox/lib"
RULES = "/sandbox/filter"
PRELOAD = "SANDBOX_PRELOAD"
USER = "SANDBOX_USER"

assert random  # Loaded so that it is seeded in each program, whether that imports it or not.


def guard() -> None:
    """Keep this process, and the inits it forks, out of programs' reach."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # A program may send it to its init.
    os.umask(0o022)
    kernel.set_dumpable(False)


def rules() -> bytes:
    """The seccomp filter of programs."""
    with open(RULES, "rb") as file:
        return file.read()


def warm_up() -> None:
    """Load what programs may want, and leave no sign of how we came to be here."""
    _preload(filter(None, os.environ.pop(PRELOAD).split(",")))
    del os.environ["PYTHONPATH"]
    sys.path.remove(HERE)
    sys.path_importer_cache.pop(HERE, None)
    _keep_whole()
    _freeze()


def _preload(names: Iterable[str]) -> None:
    """Import what is there of `names`."""
    for name in names:
        with contextlib.suppress(ImportError):
            importlib.import_module(name)


def _keep_whole() -> None:
    """Have the modules there are now not taken apart at a program's end; only its own are.

    That would cost more than all else in a short program: it writes to each page they lie on,
    and so has it copied, before all memory goes.
    """
    kept = set(sys.modules) - {"sys", "builtins", "__main__"}
    for name in kept:
        ctypes.pythonapi.Py_IncRef(ctypes.py_object(sys.modules[name]))
    atexit.register(_hide, kept)  # The first to be registered is the last to be called.


def _hide(names: Iterable[str]) -> None:
    for name in names:
        sys.modules.pop(name, None)


def _freeze() -> None:
    """Keep the collector off what programs share: it would copy every page it looks at.

    All but the programs' own module, whose cycles it must still find at their end.
    """
    gc.collect()
    gc.freeze()
    main = sys.modules["__main__"]
    for thawed in (main, vars(main)):
        ctypes.pythonapi.PyObject_GC_UnTrack(ctypes.py_object(thawed))
        ctypes.pythonapi.PyObject_GC_Track(ctypes.py_object(thawed))
