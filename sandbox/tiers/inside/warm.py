"""Making an interpreter ready to be forked as `python FILE` many times."""

import contextlib
import ctypes
import gc
import importlib
import os
import signal
import sys
from collections.abc import Iterable

from sandbox.tiers.inside import ending, kernel

HERE = "/sandbox/lib"
RULES = "/sandbox/filter"
PRELOAD = "SANDBOX_PRELOAD"
USER = "SANDBOX_USER"


def guard() -> None:
    """Keep this process, and those of ours that it forks, out of programs' reach."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # A program may send it to what it sees of us.
    os.umask(0o022)
    kernel.set_dumpable(False)


def rules() -> bytes:
    """The seccomp filter of programs."""
    with open(RULES, "rb") as file:
        return file.read()


def warm_up() -> None:
    """Load what programs may want, and leave no sign of how we came to be here."""
    kernel.bound_capabilities()
    _preload(filter(None, os.environ.pop(PRELOAD).split(",")))
    if "numpy.random" in sys.modules:  # Its state is each program's at its start.
        sys.modules["numpy.random"].seed(0)
    del os.environ["PYTHONPATH"]
    sys.path.remove(HERE)
    sys.path_importer_cache.pop(HERE, None)
    for name in [name for name in sys.modules if name.split(".")[0] == "sandbox"]:
        del sys.modules[name]
    ending.prepare()
    _freeze()


def _preload(names: Iterable[str]) -> None:
    """Import what is there of `names`."""
    for name in names:
        with contextlib.suppress(ImportError):
            importlib.import_module(name)


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
