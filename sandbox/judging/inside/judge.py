"""Carries out one test in a box without the program, and tells what became of it, once.

The first message says which test, and holds a nonce for the record. Outcomes:
    passed     the test came to its end and used the program
    failed     an assertion does not hold
    raised     the program raised, or could not be imported
    absent     the program lacks a name that the tests use
    error      the test's own code raised, e.g. on a value of a wrong type
    gone       the program ended
    skipped    the test chose not to be carried out
    unsupported  it needs what cannot be had here
"""

import builtins
import os
import socket
import sys
import unittest
from pathlib import Path
from types import ModuleType
from typing import Any

from . import codec
from .frames import framed, receive
from .names import STANDARD, supplied_to, used_by
from .pytests import Pytest, Skipped
from .remote import Absent, Link


class Program(ModuleType):
    """The module `solution`, as tests import it."""

    def __init__(self, link: Link) -> None:
        super().__init__("solution")
        self.__path__: list[str] = []
        vars(self)["__link__"] = link

    def __getattr__(self, name: str) -> Any:
        link = vars(self)["__link__"]
        if name == "__all__":
            taken = vars(sys.modules["tests"])  # By the tests, which mean that by it.
            found = {name: one for name, one in link.find(None).items() if name not in taken}
            vars(self).update(found)
            return list(found)
        if name.startswith("__"):
            raise AttributeError(name)
        if name not in (found := link.find([name])):
            link.trouble = link.trouble or ("absent", name)
            raise Absent(name)
        vars(self).update(found)
        return found[name]


def carry_out(link: Link, begin: Any, source: str) -> None:
    """Carry out the test; raises unless it passes."""
    code = compile(source, "tests.py", "exec", dont_inherit=True)
    module = ModuleType("tests")
    sys.modules["tests"] = module
    if begin["kind"] == "pytest":
        sys.modules["solution"] = Program(link)
        sys.modules["pytest"] = pytest = Pytest(link)
        exec(code, vars(module))
        pytest.run(vars(module), begin["test"])
        return
    vars(module).update(supplied_to(code))
    vars(module).update(_of_program(link, used_by(code), begin["entry_point"]))
    exec(code, vars(module))


def _of_program(link: Link, used: set[str], entry_point: str | None) -> dict[str, Any]:
    """What the tests mean by names of the program: never a builtin or a name of the library.

    Else a program could bring its own `abs` or `isclose` and be judged by that.
    """
    ours = set(dir(builtins)) | STANDARD
    wanted = {name for name in used if name not in ours or name == entry_point}
    found = link.find(sorted(wanted))
    if entry_point is not None and entry_point not in found:
        raise Absent(entry_point)
    return found


def outcome(link: Link, begin: Any, source: str) -> tuple[str, str]:
    """What became of the test, and a word on it."""
    try:
        carry_out(link, begin, source)
        found = ("passed", "") if link.used else ("unsupported", "the program is not used")
    except (Skipped, unittest.SkipTest):
        found = "skipped", ""
    except Absent as fault:
        found = "absent", str(fault)
    except BaseException as fault:  # noqa: BLE001  # Whatever the tests do.
        found = _told(link, fault)
    return link.trouble or found


def _told(link: Link, fault: BaseException) -> tuple[str, str]:
    kind = type(fault).__name__
    if "_at" in getattr(fault, "__dict__", {}):
        return "raised", f"{kind}: {vars(fault)['_text']}"[:300]
    if isinstance(fault, AssertionError):
        return "failed", ""
    if isinstance(fault, NameError) and fault.name in link.asked:
        return "absent", str(fault.name)
    if isinstance(fault, NameError | ImportError | SyntaxError):
        return "unsupported", f"the tests cannot be run here: {kind}: {fault}"[:300]
    return "error", kind


def main() -> None:
    """Carry out the test that descriptor 3 names."""
    stream = socket.socket(fileno=3)
    _, content = receive(stream)
    begin = codec.parse(content)
    what, detail = outcome(Link(stream), begin, Path("tests.py").read_text("utf-8"))
    record = {"nonce": begin["nonce"], "outcome": what, "detail": detail}
    stream.sendall(framed(b"V", codec.write(record)))
    sys.stdout.flush()
    os._exit(0)
