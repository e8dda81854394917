"""On the tests' side: stand-ins for what the program defines, which runs in another box.

Data comes by value, all else stays there and is worked with through a stand-in. A comparison of
the program's own making decides nothing: a stand-in equals itself and no data. What cannot be told
is `Unsupported`, which stays on record even if the tests catch it.
"""

import builtins
import socket
import sys
from collections.abc import Callable
from typing import Any

from . import codec
from .frames import framed, receive
from .stand_ins import FAULTY, Class, Object, number_of

_POWERFUL = (eval, exec, compile, open, getattr, setattr, delattr, __import__)
"""Functions that the program is not to call on the tests' side, were they handed to it."""


class Unsupported(BaseException):
    """The tests need what cannot be had through a stand-in."""


class Gone(BaseException):
    """The program has ended, or gives nothing that can be read."""


class Absent(NameError):
    """The program does not define a name that the tests use."""


class Link:
    """The way to the program. `trouble` says what made the tests meaningless, if anything did.

    `named` are the classes that the tests call by name; `classes` those of them with the name of a
    class: else the program may have put one where the tests mean a function.
    """

    def __init__(self, stream: socket.socket) -> None:
        self.trouble: tuple[str, str] | None = None
        self.named: set[int] = set()
        self.classes: set[int] = set()
        self.asked: set[str] = set()
        self.used = False
        self._stream = stream
        self._callbacks: list[Callable[..., Any]] = []
        self._stand_ins: dict[int, Any] = {}

    def unsupported(self, why: str) -> Unsupported:
        """To be raised: these tests cannot be run here."""
        self.trouble = self.trouble or ("unsupported", why)
        return Unsupported(why)

    def find(self, names: list[str] | None) -> dict[str, Any]:
        """What the program defines under these names, or under all it exports."""
        self.asked.update(names or ())
        told = self._ask({"do": "find", "names": names})["found"]
        wanted = [name for name in told if _may_be_exported(name)] if names is None else names
        return {name: self._found(name, *told[name]) for name in wanted if told.get(name)}

    def _found(self, name: str, tree: Any) -> Any:
        found = self._decoded(tree)
        if isinstance(found, Class):
            self.named.add(number_of(found))
            if name.lstrip("_")[:1].isupper():
                self.classes.add(number_of(found))
        elif not isinstance(found, Object):
            self.used = True  # A constant.
        return found

    def call(self, of: int, args: Any, kw: Any, wait: bool = False) -> Any:
        """What the program returns, or raise what it raises; `args` are changed as it did."""
        request = {
            "do": "call", "of": of, "await": wait, "args": [self._encoded(arg) for arg in args],
            "kw": {name: self._encoded(arg) for name, arg in kw.items()},
        }  # fmt: skip
        answer = self._ask(request)
        for at, tree in answer["changed"].items():
            _refill(args[int(at)], self._decoded(tree))
        return self._decoded(answer["value"])

    def get(self, of: int, name: str) -> Any:
        """An attribute of an object."""
        return self._decoded(self._ask({"do": "get", "of": of, "name": name})["value"])

    def set(self, of: int, name: str, value: Any) -> None:
        """Set an attribute of an object."""
        self._ask({"do": "set", "of": of, "name": name, "value": self._encoded(value)})

    def special(self, of: int, name: str, *args: Any) -> Any:
        """What a special method of an object returns."""
        encoded = [self._encoded(arg) for arg in args]
        request = {"do": "special", "of": of, "name": name, "args": encoded}
        return self._decoded(self._ask(request)["value"])

    def _ask(self, request: Any) -> Any:
        """The answer to a request, running what it calls back meanwhile."""
        self.used = self.used or request["do"] != "find"
        self._stream.sendall(framed(b"Q", codec.write({**request, "capture": True})))
        while True:
            kind, content = receive(self._stream)
            if kind == b"A":
                return self._accepted(codec.parse(content))
            if kind == b"C":
                self._stream.sendall(framed(b"R", codec.write(self._called_back(content))))
            else:
                self.trouble = self.trouble or ("gone", "")
                raise Gone

    def _accepted(self, answer: Any) -> Any:
        sys.stdout.write(answer.get("printed", ""))
        if "raised" in answer:
            raise self._fault(answer["raised"])
        if "absent" in answer:
            raise Absent(answer["absent"])
        if "refused" in answer:
            self.trouble = self.trouble or ("raised", "a value that is " + answer["refused"])
            raise Gone
        return answer

    def _called_back(self, content: bytes) -> Any:
        request = codec.parse(content)
        args = [self._decoded(arg) for arg in request["args"]]
        named = {name: self._decoded(arg) for name, arg in request["kw"].items()}
        try:
            value = self._callbacks[request["number"]](*args, **named)
        except Exception as fault:  # noqa: BLE001  # It goes where the call came from.
            return {"raised": {"type": type(fault).__name__, "text": str(fault)}}
        return {"value": self._encoded(value)}

    def _encoded(self, value: Any) -> Any:
        return codec.encode(value, self._referred)

    def _referred(self, value: Any) -> Any:
        """The tree of what is not data: a number of theirs, or of a function of ours."""
        if isinstance(value, Object | Class):
            return ["o", number_of(value)]
        if not callable(value) or any(value is one for one in _POWERFUL):
            raise self.unsupported(f"an argument of type {type(value).__name__}")
        self._callbacks.append(value)
        return ["o", len(self._callbacks) - 1, "theirs"]

    def _decoded(self, tree: Any) -> Any:
        return codec.decode(tree, self._stand_in)

    def _stand_in(self, tree: Any) -> Any:
        """The one stand-in for an object, so that identity is kept."""
        _, number, aspect, described, *plain = tree
        if number not in self._stand_ins:
            self._stand_ins[number] = self._made(number, aspect, described)
        made = self._stand_ins[number]
        if isinstance(made, Object):
            object.__setattr__(made, "_plain", [self._decoded(value) for value in plain])
        return made

    def _made(self, number: int, aspect: str, described: Any) -> Any:
        if aspect in ("class", "exception"):
            return self._class(described)
        if aspect == "async":
            return _waiting(self, number)
        kind = self._class(described)
        made = object.__new__(kind if issubclass(kind, Object) else Object)
        object.__setattr__(made, "_at", (self, number))
        return made

    def _class(self, described: Any) -> type:
        """A class of the program as one of ours with the same bases, as far as they matter."""
        module, name, number, bases, compares = described
        if number is None:
            return (_builtin_fault(name) if module == "builtins" else None) or Object
        if number not in self._stand_ins:
            ours = tuple(dict.fromkeys(self._class(base) for base in bases))
            real = tuple(base for base in ours if base is not Object) or (Object,)
            body = {} if Object in real else FAULTY
            own = {"_at": (self, number), "_compares": compares}
            self._stand_ins[number] = Class(name, real, {**body, **own})
        made = self._stand_ins[number]
        assert isinstance(made, type)
        return made

    def _fault(self, told: Any) -> BaseException:
        """An exception of ours like the one that the program raised."""
        _, number, _, described, *_ = told["object"]
        if told.get("loading"):
            self.trouble = self.trouble or ("raised", "")
        kind = self._class(described)
        if not issubclass(kind, BaseException):
            kind = _builtin_fault(told["builtin"]) or Exception
        fault = _instance(kind, told)
        vars(fault).update(_at=(self, number), _text=told["text"])
        return fault


def _builtin_fault(name: Any) -> type[BaseException] | None:
    """The builtin exception of a name that the program chose, which may be that of anything."""
    found = getattr(builtins, name, None)
    return found if isinstance(found, type) and issubclass(found, BaseException) else None


def _may_be_exported(name: str) -> bool:
    """Whether `import *` takes it: never in place of a builtin, or of what a module is made of."""
    return name.isidentifier() and not name.startswith("__") and not hasattr(builtins, name)


def _instance(kind: type[BaseException], told: Any) -> BaseException:
    try:
        args = codec.decode(told["args"]) or ()
        fault = BaseException.__new__(kind, *args) if isinstance(kind, Class) else kind(*args)
    except (TypeError, codec.Refused):
        fault = Exception(told["text"])
    return fault


def _refill(target: Any, content: Any) -> None:
    """Give a list, dict, set or bytearray of the tests the content it has got."""
    if isinstance(target, list | bytearray):
        target[:] = content
    else:
        target.clear()
        target.update(content)


def _waiting(link: Link, number: int) -> Any:
    async def function(*args: Any, **kw: Any) -> Any:
        return link.call(number, args, kw, wait=True)

    return function
