"""Stand-ins for the program's classes and objects, worked with over the link to it.

An object of a class that the tests do not name is worth nothing but what it tells of itself: it is
never asked whether it suits a value of theirs. What cannot be told is `Unsupported`.
"""

from numbers import Number
from typing import Any


def number_of(stand_in: Any) -> int:
    """The number of the object behind a stand-in."""
    number = _at(stand_in)[1]
    assert isinstance(number, int)
    return number


def _link(stand_in: Any) -> Any:
    """The `Link` to the program (see remote.py)."""
    return _at(stand_in)[0]


def _at(stand_in: Any) -> Any:
    """Past what the stand-in does with attributes."""
    kind = type if isinstance(stand_in, Class) else object
    return kind.__getattribute__(stand_in, "_at")


def _special(name: str) -> Any:
    def method(self: Any, *args: Any) -> Any:
        return _link(self).special(number_of(self), name, *args)

    method.__name__ = name
    return method


def _arithmetic(name: str) -> Any:
    """Only of a class that the tests name: else an object could pass for any number.

    So could what such an object makes of a number: that stays an object, for its attributes.
    """

    def method(self: Any, *args: Any) -> Any:
        if not _is_named(self):
            return NotImplemented
        link, derived = _checked_class(self), _is_derived(self)
        made = link.special(number_of(self), name, *args)
        if derived or any(isinstance(arg, Number) for arg in args):
            if not isinstance(made, Object):
                raise link.unsupported("what an object of the program makes of a number")
            object.__setattr__(made, "_derived", True)
        return made

    method.__name__ = name
    return method


def _checked_class(self: Any) -> Any:
    """The link of an object that may do as its class says; Unsupported if that is in doubt."""
    link = _link(self)
    if number_of(type(self)) not in link.classes:
        raise link.unsupported("a class of the program under the name of a function")
    return link


def _is_derived(stand_in: Any) -> bool:
    return bool(vars(stand_in).get("_derived"))


def _number(name: str) -> Any:
    """As `_special`, but for what an object has made of a number."""
    plain = _special(name)

    def method(self: Any, *args: Any) -> Any:
        if _is_derived(self):
            raise _link(self).unsupported("what an object of the program makes of a number")
        return plain(self, *args)

    method.__name__ = name
    return method


def _comparison(name: str) -> Any:
    def method(self: Any, _: Any) -> Any:
        if _is_named(self):
            raise _link(self).unsupported("comparing objects of the program")
        return NotImplemented

    method.__name__ = name
    return method


def _is_named(stand_in: Any) -> bool:
    kind = type(stand_in)
    return isinstance(kind, Class) and number_of(kind) in _link(stand_in).named


class Class(type):
    """A class of the program: makes objects there, and is found by `isinstance` and `except`."""

    def __call__(cls, *args: Any, **kw: Any) -> Any:
        return _link(cls).call(number_of(cls), args, kw)

    def __getattr__(cls, name: str) -> Any:
        if name.startswith("__") and name.endswith("__"):
            raise AttributeError(name)
        return _link(cls).get(number_of(cls), name)

    __iter__ = _special("__iter__")
    __len__ = _special("__len__")
    __getitem__ = _special("__getitem__")
    __contains__ = _special("__contains__")


_PREDICATES = {"startswith", "endswith", "issubset", "issuperset", "isdisjoint"}
"""Methods of data that say yes or no to a value of the tests; an object of no known class has none.
"""


class Object:
    """An object of the program."""

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__") and name not in ("__name__", "__doc__", "__dict__"):
            raise AttributeError(name)
        if name in _PREDICATES and not _is_named(self):
            raise AttributeError(name)
        return _link(self).get(number_of(self), name)

    def __contains__(self, item: object) -> bool:
        """As its class says, if the tests name that; else any object could hold all there is."""
        if _is_named(self):
            return bool(_checked_class(self).special(number_of(self), "__contains__", item))
        return any(one is item or one == item for one in iter(self))

    def __setattr__(self, name: str, value: Any) -> None:
        _link(self).set(number_of(self), name, value)

    def __call__(self, *args: Any, **kw: Any) -> Any:
        return _link(self).call(number_of(self), args, kw)

    def __eq__(self, other: object) -> bool:
        if other is self:
            return True
        if plain := object.__getattribute__(self, "_plain"):
            return bool(plain[0] == other)
        if _is_named(self) and type.__getattribute__(type(self), "_compares"):
            raise _link(self).unsupported("comparing objects of the program")
        return False

    def __hash__(self) -> int:
        plain = object.__getattribute__(self, "_plain")
        return hash(plain[0]) if plain else number_of(self)


def _doc(self: Object) -> Any:
    return _link(self).get(number_of(self), "__doc__")


setattr(Object, "__doc__", property(_doc))  # noqa: B010  # Instead of its own.

FAULTY = {"__getattr__": Object.__getattr__, "__str__": lambda self: vars(self)["_text"]}
"""What an exception of the program's own class has besides."""

for _name in ("len", "iter", "next", "getitem", "setitem", "delitem", "bool", "str"):
    setattr(Object, f"__{_name}__", _special(f"__{_name}__"))
for _name in ("repr", "enter", "exit", "format", "reversed"):
    setattr(Object, f"__{_name}__", _special(f"__{_name}__"))
for _name in ("int", "float"):
    setattr(Object, f"__{_name}__", _number(f"__{_name}__"))
for _name in (
    "add",
    "sub",
    "mul",
    "truediv",
    "floordiv",
    "mod",
    "pow",
    "matmul",
    "and",
    "or",
    "xor",
):
    setattr(Object, f"__{_name}__", _arithmetic(f"__{_name}__"))
    setattr(Object, f"__r{_name}__", _arithmetic(f"__r{_name}__"))
for _name in ("neg", "abs", "invert"):
    setattr(Object, f"__{_name}__", _arithmetic(f"__{_name}__"))
for _name in ("lt", "le", "gt", "ge"):
    setattr(Object, f"__{_name}__", _comparison(f"__{_name}__"))
