"""What test files use of pytest, in small: each part does what pytest's does, or is Unsupported.

Runs one test of a file. It passes only by coming to its end: what is skipped has not passed.
"""

import re
import sys
import unittest
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from io import StringIO
from types import ModuleType
from typing import Any

from .remote import Link

_GENERATOR = 0x20
_DEFERRED = _GENERATOR | 0x80 | 0x200
"""Flags of functions whose call runs nothing: generators, coroutines, both."""


class Skipped(BaseException):
    """The test has not been carried out."""


class Failed(AssertionError):
    """The test says itself that it fails."""


class ExceptionInfo:
    """What `raises` caught."""

    value: BaseException

    @property
    def type(self) -> type:
        """Its class."""
        return type(self.value)

    def match(self, pattern: str) -> bool:
        """Whether its text holds the pattern; Failed if not."""
        if re.search(pattern, str(self.value)) is None:
            raise Failed("the exception says something else")
        return True

    def __str__(self) -> str:
        return str(self.value)


class Raises:
    """Fails unless the block raises one of `kinds` whose text `match` finds."""

    def __init__(self, kinds: Any, match: str | None) -> None:
        self._kinds = kinds
        self._match = match
        self._info = ExceptionInfo()

    def __enter__(self) -> ExceptionInfo:
        return self._info

    def __exit__(self, kind: Any, fault: Any, trace: Any) -> bool:
        if fault is None:
            raise Failed("nothing was raised")
        if not isinstance(fault, self._kinds):
            return False
        self._info.value = fault
        return self._match is None or self._info.match(self._match)


def raises(kinds: Any, *call: Any, match: str | None = None, **kw: Any) -> Any:
    """A `Raises`; or call a function within one, as pytest's older form does."""
    block = Raises(kinds, match)
    if not call:
        return block
    with block as info:
        call[0](*call[1:], **kw)
    return info


class approx:  # Named as pytest's.
    """Equal to numbers, sequences or mappings that are near enough."""

    __array_ufunc__ = None

    def __init__(
        self, expected: Any, rel: float | None = None, abs: float | None = None,
        nan_ok: bool = False,
    ) -> None:  # fmt: skip
        self._expected = expected
        self._options = (rel, abs, nan_ok)

    def __eq__(self, got: object) -> bool:
        return self._near(self._expected, got)

    def __repr__(self) -> str:
        return f"approx({self._expected!r})"

    __hash__ = None  # type: ignore[assignment]

    def _near(self, expected: Any, got: Any) -> bool:
        if isinstance(expected, Mapping):
            same = isinstance(got, Mapping) and set(expected) == set(got)
            return same and all(self._near(expected[key], got[key]) for key in expected)
        if isinstance(expected, Sequence) and not isinstance(expected, str | bytes):
            same = isinstance(got, Sequence) and len(expected) == len(got)
            return same and all(map(self._near, expected, got))
        if type(expected) in (int, float, complex) and type(got) in (bool, int, float, complex):
            return self._close(expected, got)
        return bool(expected == got)

    def _close(self, expected: Any, got: Any) -> bool:
        relative, absolute, nan_ok = self._options
        if expected != expected or got != got:
            return nan_ok and expected != expected and got != got
        if expected == got or abs(expected) == float("inf"):
            return bool(expected == got)
        least = 1e-12 if absolute is None else absolute
        share = 1e-6 if relative is None and absolute is None else relative or 0.0
        return bool(abs(expected - got) <= max(least, share * abs(expected)))


class Case:
    """One parameter set of a test."""

    def __init__(self, *values: Any, id: Any = None, marks: Any = ()) -> None:
        self.values = values
        self.marks = marks if isinstance(marks, list | tuple) else [marks]


def parametrize(names: Any, cases: Any, ids: Any = None) -> Callable[[Any], Any]:
    """As `pytest.mark.parametrize`, without `indirect`."""
    split = [name.strip() for name in names.split(",")] if isinstance(names, str) else list(names)

    def mark(test: Any) -> Any:
        test.__dict__.setdefault("_cases", []).append([_case(split, case) for case in cases])
        return test

    return mark


def _case(names: list[str], case: Any) -> dict[str, Any]:
    if isinstance(case, Case):
        if case.marks:
            raise Skipped
        values: Any = case.values
    else:
        values = [case] if len(names) == 1 else case
    return dict(zip(names, values, strict=True))


def skip(*_: Any, **__: Any) -> Any:
    """The test says itself that it is not carried out."""
    raise Skipped


def fail(*_: Any, **__: Any) -> Any:
    """The test says itself that it fails."""
    raise Failed("the test says so")


def _ignored(*args: Any, **kw: Any) -> Any:
    """A mark that changes nothing, with or without arguments."""
    return args[0] if len(args) == 1 and callable(args[0]) and not kw else lambda test: test


def _skipping(*_: Any, **__: Any) -> Any:
    def mark(test: Any) -> Any:
        test._skipped = True
        return test

    return mark


class Marks:
    """`pytest.mark`."""

    parametrize = staticmethod(parametrize)
    skip = skipif = xfail = staticmethod(_skipping)

    def __getattr__(self, name: str) -> Any:
        return _ignored


class Captured:
    """The fixture `capsys`, and what it read."""

    def __init__(self) -> None:
        self.out = self.err = ""

    def readouterr(self) -> "Captured":
        """What has been printed since the last time."""
        read = Captured()
        assert isinstance(sys.stdout, StringIO)
        read.out = sys.stdout.getvalue()
        sys.stdout = StringIO()
        return read

    def __iter__(self) -> Iterator[str]:
        return iter((self.out, self.err))


def _capsys() -> Iterator[Captured]:
    real, sys.stdout = sys.stdout, StringIO()
    yield Captured()
    sys.stdout = real


class Pytest(ModuleType):
    """What `import pytest` gives to tests."""

    def __init__(self, link: Link) -> None:
        super().__init__("pytest")
        self.__dict__.update(
            raises=raises, approx=approx, skip=skip, fail=fail, param=Case, mark=Marks(),
            fixture=self._fixture, _fixtures={"capsys": _capsys}, _link=link,
            ExceptionInfo=ExceptionInfo, main=lambda *_, **__: 0,
        )  # fmt: skip

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        raise vars(self)["_link"].unsupported(f"pytest.{name}")

    def _fixture(self, maker: Any = None, **options: Any) -> Any:
        if options.keys() - {"scope", "name", "autouse"} or options.get("autouse"):
            raise vars(self)["_link"].unsupported("a fixture with params or autouse")

        def register(function: Any) -> Any:
            name = options.get("name") or function.__name__
            vars(self)["_fixtures"][name] = function
            return function

        return register if maker is None else register(maker)

    def run(self, module: dict[str, Any], name: str) -> None:
        """Carry out one test, `function` or `Class::method`; raises unless it passes."""
        owner, _, method = name.rpartition("::")
        kind = module[owner] if owner else None
        if isinstance(kind, type) and issubclass(kind, unittest.TestCase):
            _run_case(kind, method)
            return
        function = getattr(kind, method) if kind else module[name]
        if vars(function).get("_skipped") or vars(kind or Pytest).get("_skipped"):
            raise Skipped
        flags = getattr(getattr(function, "__code__", None), "co_flags", _DEFERRED)
        if flags & _DEFERRED:
            raise vars(self)["_link"].unsupported(f"{name} is not a plain function")
        for arguments in _combined(vars(function).get("_cases", [])):
            self._run_function(module, kind, function, arguments)

    def _run_function(self, module: Any, kind: Any, function: Any, arguments: Any) -> None:
        instance = kind() if kind else None
        _set_up(instance, "setup_method", function)
        with ExitStack() as stack:
            made: dict[str, Any] = dict(arguments)
            given = self._arguments(function, module, instance, made, stack)
            function(instance, **given) if kind else function(**given)
        _set_up(instance, "teardown_method", function)

    def _arguments(
        self, function: Any, module: Any, instance: Any, made: dict[str, Any], stack: ExitStack
    ) -> dict[str, Any]:
        plain = getattr(function, "__wrapped__", function)
        code = plain.__code__
        names = code.co_varnames[: code.co_argcount + code.co_kwonlyargcount]
        given = code.co_argcount - len(plain.__defaults__ or ())  # Those after have defaults.
        own = {"self", *names[given : code.co_argcount], *(plain.__kwdefaults__ or {})}
        for name in names:
            if name not in made and name not in own:
                made[name] = self._made(name, module, instance, made, stack)
        return {name: made[name] for name in names if name in made and name != "self"}

    def _made(self, name: str, module: Any, instance: Any, made: Any, stack: ExitStack) -> Any:
        """The value of a fixture, once a test."""
        maker = vars(self)["_fixtures"].get(name)
        if maker is None:
            raise vars(self)["_link"].unsupported(f"the fixture {name}")
        given = self._arguments(maker, module, instance, made, stack)
        own = maker.__code__.co_varnames[:1] == ("self",)
        value = maker(instance, **given) if own else maker(**given)
        if isinstance(value, Iterator) and maker.__code__.co_flags & _GENERATOR:
            return stack.enter_context(_finished(value))
        return value


@contextmanager
def _finished(generator: Iterator[Any]) -> Iterator[Any]:
    yield next(generator)
    next(generator, None)


def _set_up(instance: Any, name: str, function: Any) -> None:
    method = getattr(instance, name, None)
    if method is not None:
        method(*[function] * (method.__code__.co_argcount - 1))


def _combined(cases: Sequence[Sequence[Mapping[str, Any]]]) -> list[dict[str, Any]]:
    combined: list[dict[str, Any]] = [{}]
    for one in cases:
        combined = [{**left, **right} for left in combined for right in one]
    if not combined:
        raise Skipped
    return combined


def _run_case(kind: type[unittest.TestCase], method: str) -> None:
    result = unittest.TestResult()
    kind.setUpClass()
    kind(method).run(result)
    kind.tearDownClass()
    if result.skipped or result.expectedFailures or result.unexpectedSuccesses:
        raise Skipped
    if result.failures:
        raise Failed("the test fails")
    if result.errors or result.testsRun != 1:
        raise RuntimeError("the test does not come to its end")
