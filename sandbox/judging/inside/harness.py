"""Beside the program: imports it as module `solution`, and answers requests about it.

Requests come over descriptor 3, one at a time, as JSON objects with `do`:
    find {names}                     what each name is, for the tests' side
    call {of, args, kw, await?}      call a name (then also a method of `Solution`) or an object;
                                     with `data` for its value alone, which must be data
    get {of, name}, set {of, name, value}
    special {of, name, args}         one of the special methods, e.g. __len__
An answer holds `value`, and `changed` arguments by position; or `raised`. Nothing here is secret,
and nothing that is sent from here is believed.
"""

import io
import os
import socket
import sys
import threading
from collections.abc import Callable
from types import ModuleType
from typing import Any

from . import codec
from .frames import framed, receive
from .names import supplied_to

_ASYNC = 0x80  # CO_COROUTINE
_SPECIAL: dict[str, Callable[[Any], Any]] = {
    "__len__": len, "__iter__": iter, "__next__": next, "__str__": str, "__repr__": repr,
    "__bool__": bool, "__hash__": hash,
}  # fmt: skip


class Absent(Exception):
    """The program does not define this name."""


class Solution:
    """The program as a module; a name it was merely supplied with is not one of its own."""

    def __init__(self, path: str) -> None:
        with open(path, "rb") as file:
            code = compile(file.read(), path, "exec")
        self.module = ModuleType("solution")
        self.module.__file__ = path
        self._supplied = supplied_to(code)
        vars(self.module).update(self._supplied)
        sys.modules["solution"] = self.module
        exec(code, vars(self.module))

    def __getitem__(self, name: str) -> Any:
        found = vars(self.module).get(name, self)
        if found is self or found is self._supplied.get(name, self):
            raise Absent(name)
        return found

    def function(self, name: str) -> Any:
        """What is called `name`: of the module, or a method of its class `Solution`."""
        try:
            return self[name]
        except Absent:
            found = getattr(vars(self.module).get("Solution"), name, self)
            if found is self:
                raise
        return getattr(self["Solution"](), name)

    def own(self) -> list[str]:
        """Names that `from solution import *` gives, without what the program has imported."""
        found = vars(self.module)
        names = found.get("__all__") or [name for name in found if not name.startswith("_")]
        return [
            name for name in names
            if getattr(found.get(name), "__module__", "solution") == "solution"
        ]  # fmt: skip


class Harness:
    """Answers requests; objects that are not data stay here and go by number."""

    def __init__(self, stream: socket.socket) -> None:
        self._stream = stream
        self._objects: list[Any] = []
        self._numbers: dict[int, int] = {}
        self._lock = threading.RLock()
        self._solution: Solution | None = None
        self._fault: BaseException | None = None

    def load(self, path: str) -> None:
        """Import the program; what it raises is told to whoever asks for something of it."""
        try:
            self._solution = Solution(path)
        except BaseException as fault:  # noqa: BLE001  # Whatever the program does.
            self._fault = fault

    def serve(self) -> None:
        """Answer until the other end is closed."""
        while True:
            kind, content = receive(self._stream)
            assert kind == b"Q"
            self._send(b"A", self._answer(codec.parse(content)))

    def _send(self, kind: bytes, answer: Any) -> None:
        try:
            message = framed(kind, codec.write(answer))
        except codec.Refused as refusal:
            message = framed(kind, codec.write({"refused": str(refusal)}))
        self._stream.sendall(message)

    def _answer(self, request: Any) -> Any:
        real, printed = sys.stdout, io.StringIO()
        if request.get("capture"):
            sys.stdout = printed
        try:
            answer = self._obey(request)
        except codec.Refused as refusal:
            answer = {"refused": str(refusal)}
        except BaseException as fault:  # noqa: BLE001  # Whatever the program does.
            answer = {"raised": self._described_fault(fault)}
        finally:
            sys.stdout = real
        return {**answer, "printed": printed.getvalue()} if request.get("capture") else answer

    def _obey(self, request: Any) -> Any:
        if self._solution is None:
            assert self._fault is not None
            return {"raised": {**self._described_fault(self._fault), "loading": True}}
        return getattr(self, "_do_" + request["do"])(self._solution, request)

    def _do_find(self, solution: Solution, request: Any) -> Any:
        names = solution.own() if request["names"] is None else request["names"]
        return {"found": {name: self._described(solution, name) for name in names}}

    def _described(self, solution: Solution, name: str) -> Any:
        try:
            found = solution[name]
        except Absent:
            return None
        return None if isinstance(found, ModuleType) else [codec.encode(found, self._kept)]

    def _do_call(self, solution: Solution, request: Any) -> Any:
        target = request["of"]
        try:
            called = solution.function(target) if isinstance(target, str) else self._objects[target]
        except Absent as absent:
            return {"absent": str(absent)}
        args = [codec.decode(arg, self._given) for arg in request["args"]]
        if request.get("data"):
            return {"value": codec.encode(called(*args))}
        named = {name: codec.decode(arg, self._given) for name, arg in request["kw"].items()}
        before = [self._content(arg) for arg in args]
        value = called(*args, **named)
        if request.get("await"):
            value = _awaited(value)
        after = [self._content(arg) for arg in args]
        changed = {str(at): tree for at, tree in enumerate(after) if tree != before[at]}
        return {"value": codec.encode(value, self._kept), "changed": changed}

    def _content(self, argument: Any) -> Any:
        """The tree of an argument that can change under the tests' eyes; else None."""
        if type(argument) not in (list, dict, set, bytearray):
            return None
        return codec.encode(argument, self._kept)

    def _do_get(self, _: Solution, request: Any) -> Any:
        value = getattr(self._objects[request["of"]], request["name"])
        return {"value": codec.encode(value, self._kept)}

    def _do_set(self, _: Solution, request: Any) -> Any:
        value = codec.decode(request["value"], self._given)
        setattr(self._objects[request["of"]], request["name"], value)
        return {"value": None}

    def _do_special(self, _: Solution, request: Any) -> Any:
        target, name = self._objects[request["of"]], request["name"]
        args = [codec.decode(arg, self._given) for arg in request["args"]]
        method = _SPECIAL.get(name)
        value = method(target) if method else getattr(type(target), name)(target, *args)
        return {"value": codec.encode(value, self._kept)}

    def _kept(self, value: Any) -> Any:
        """A tree for an object that stays: number, what can be done with it, class, plain value."""
        named = value if isinstance(value, type) else type(value)
        told = ["o", self._number(value), _aspect(value), self._described_class(named)]
        try:
            return [*told, codec.encode(codec.plain(value), self._kept)]
        except codec.Refused:
            return told

    def _number(self, value: Any) -> int:
        number = self._numbers.setdefault(id(value), len(self._objects))
        if number == len(self._objects):
            self._objects.append(value)  # So that no other object ever has its id.
        return number

    def _described_class(self, kind: type) -> Any:
        """Module and name; of the program's own classes also number, bases, and own equality."""
        if kind.__module__ != "solution":
            return [kind.__module__, kind.__qualname__, None, [], False]
        bases = [self._described_class(base) for base in kind.__bases__]
        compares = getattr(kind, "__eq__", None) is not getattr(object, "__eq__", None)
        return [kind.__module__, kind.__qualname__, self._number(kind), bases, compares]

    def _given(self, tree: Any) -> Any:
        """The object of a tree from the tests' side: one of ours, or a function of theirs."""
        _, number, *theirs = tree
        if not theirs:
            return self._objects[number]
        return lambda *args, **kw: self._call_back(number, args, kw)

    def _call_back(self, number: int, args: Any, kw: Any) -> Any:
        with self._lock:
            request = {
                "number": number, "args": [codec.encode(arg, self._kept) for arg in args],
                "kw": {name: codec.encode(arg, self._kept) for name, arg in kw.items()},
            }  # fmt: skip
            self._send(b"C", request)
            _, content = receive(self._stream)
            answer = codec.parse(content)
        if "raised" in answer:
            raise _builtin(answer["raised"])
        return codec.decode(answer["value"], self._given)

    def _described_fault(self, fault: BaseException) -> Any:
        try:
            text, args = str(fault), codec.encode(fault.args)
        except BaseException:  # noqa: BLE001  # Of the program's own class.
            text, args = "", None
        builtin = next(base for base in type(fault).__mro__ if base.__module__ == "builtins")
        return {
            "object": self._kept(fault), "builtin": builtin.__name__, "text": text[:2000],
            "args": args,
        }  # fmt: skip


def _aspect(value: Any) -> str:
    if isinstance(value, type):
        return "exception" if issubclass(value, BaseException) else "class"
    if not callable(value):
        return "object"
    flags = getattr(getattr(value, "__code__", None), "co_flags", 0)
    return "async" if flags & _ASYNC else "function"


def _awaited(value: Any) -> Any:
    import asyncio  # Slow to import, and rarely used.

    return asyncio.run(value)


def _builtin(described: Any) -> BaseException:
    import builtins

    kind = getattr(builtins, described["type"], Exception)
    fault = kind(described["text"]) if issubclass(kind, BaseException) else Exception()
    assert isinstance(fault, BaseException)
    return fault


def main() -> None:
    """Serve descriptor 3 until it is closed."""
    harness = Harness(socket.socket(fileno=3))
    harness.load("solution.py")
    try:
        harness.serve()
    except (EOFError, OSError):
        os._exit(0)
