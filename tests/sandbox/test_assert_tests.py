"""What tests beside the program can use of it, what they cannot, and that it is told apart."""

from typing import Any

import pytest

from tests.sandbox.service import Service

PROGRAM = '''
import asyncio
from collections import Counter, namedtuple
from decimal import Decimal
from enum import Enum, IntEnum
from fractions import Fraction

LIMIT = 7

class Empty(ValueError):
    def __init__(self, size):
        super().__init__(f"empty at {size}")
        self.size = size

class Colour(Enum):
    RED = 1
    BLUE = 2

class Spot(namedtuple("Spot", "x y")):
    pass

class Level(IntEnum):
    HIGH = 2

class Stack:
    """Last in, first out."""
    kind = "stack"

    def __init__(self, items=()):
        self.items = list(items)

    def push(self, item):
        self.items.append(item)
        return self

    def pop(self):
        if not self.items:
            raise Empty(len(self.items))
        return self.items.pop()

    def __len__(self):
        return len(self.items)

    def __contains__(self, item):
        return item in self.items

    def __iter__(self):
        return iter(self.items)

    def __getitem__(self, at):
        return self.items[at]

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.items.clear()

    def __add__(self, other):
        return Stack(self.items + other.items)

    def __str__(self):
        return f"Stack of {len(self)}"

    @staticmethod
    def of(*items):
        return Stack(items)

class Tower(Stack):
    pass

class Money:
    def __init__(self, amount):
        self.amount = amount

    def __eq__(self, other):
        return True

def sort_in_place(items):
    items.sort()

def countdown(n):
    while n:
        yield n
        n -= 1

def twice(function, value):
    return function(function(value))

def adder(n):
    return lambda value: value + n

def counted(function):
    def wrapper(*args, **kw):
        wrapper.calls += 1
        return function(*args, **kw)
    wrapper.calls = 0
    return wrapper

def values():
    return [None, True, 2**100, 1.5, "é", b"x", (1, [2]), {3}, frozenset({4}), {(5,): {6: 7}},
            1j, Decimal("0.10"), Fraction(1, 3), Counter("aab"), float("inf")]

def greet(name="you"):
    """Says hello."""
    print(f"hello {name}")

async def later(value):
    await asyncio.sleep(0)
    return value

def divide(a, b):
    return a / b

def push_all(stack, items):
    for item in items:
        stack.push(item)
    return len(stack)
'''

GOOD = """
import asyncio, math, sys, unittest
from decimal import Decimal
from fractions import Fraction
from io import StringIO
from contextlib import redirect_stdout
import pytest
import solution
from solution import *
from solution import Empty, Stack, Tower, greet

@pytest.fixture
def stack():
    made = Stack([1, 2])
    yield made
    made.items = []

def test_values():
    got = solution.values()
    assert got == [None, True, 2**100, 1.5, "é", b"x", (1, [2]), {3}, frozenset({4}),
                   {(5,): {6: 7}}, 1j, Decimal("0.1"), Fraction(1, 3), {"a": 2, "b": 1}, math.inf]
    assert [type(one) for one in got[:5]] == [type(None), bool, int, float, str]
    assert solution.LIMIT == 7

def test_changed_arguments():
    items = [3, 1, 2]
    assert sort_in_place(items) is None
    assert items == [1, 2, 3]

def test_classes(stack):
    assert len(stack) == 2 and 2 in stack and list(stack) == [1, 2] and stack[-1] == 2
    assert stack.push(3).push(4) is stack
    assert stack.pop() == 4 and stack.items == [1, 2, 3]
    assert isinstance(stack, Stack) and not isinstance(stack, Tower)
    assert stack != Stack([1, 2]) and stack != [1, 2]
    assert isinstance(Tower(), Stack) and issubclass(Tower, Stack)
    assert str(stack) == "Stack of 3" and Stack.kind == "stack"
    assert list(Stack([1]) + Stack.of(2)) == [1, 2]
    with Stack([1]) as inner:
        assert len(inner) == 1
    assert not inner
    assert push_all(stack, [5]) == 4
    assert hasattr(stack, "items") and not hasattr(stack, "nothing")

def test_enumerations():
    assert Colour.RED is Colour.RED and Colour.RED != Colour.BLUE
    assert Colour(2).name == "BLUE" and [one.value for one in Colour] == [1, 2]

def test_exceptions(stack):
    with pytest.raises(ZeroDivisionError):
        divide(1, 0)
    with pytest.raises(Empty, match="empty at 0") as caught:
        Stack().pop()
    assert caught.value.size == 0 and isinstance(caught.value, ValueError)
    try:
        Stack().pop()
    except Empty as fault:
        assert str(fault) == "empty at 0"
    with pytest.raises(TypeError):
        divide("1", 2)
    pytest.raises(ValueError, Stack().pop)

def test_generators():
    steps = countdown(3)
    assert next(steps) == 3 and list(steps) == [2, 1]
    with pytest.raises(StopIteration):
        next(steps)

def test_functions():
    assert twice(lambda value: value * 3, 2) == 18
    assert adder(2)(3) == 5 and callable(adder(1))
    @counted
    def square(value):
        return value * value
    assert square(3) == 9 and square(4) == 16 and square.calls == 2
    def raising(value):
        raise KeyError("inner")
    with pytest.raises(KeyError):
        twice(raising, 1)
    assert greet.__name__ == "greet" and greet.__doc__ == "Says hello."

def test_subclasses_of_builtin_types():
    spot = solution.Spot(1, 2)
    assert spot == (1, 2) and spot.x == 1 and spot != (1, 3) and spot in {(1, 2)}
    assert solution.Level.HIGH == 2 and solution.Level.HIGH.name == "HIGH"
    spots = [solution.Spot(2, 1), spot]
    spots_sorted = spots[:]
    solution.sort_in_place(spots_sorted)
    assert spots_sorted == [spot, spots[0]] and spots_sorted[0] is spot

def test_printing(capsys):
    greet("me")
    assert capsys.readouterr().out == "hello me\\n"
    with redirect_stdout(StringIO()) as printed:
        greet()
    assert printed.getvalue() == "hello you\\n"

def test_coroutines():
    assert asyncio.run(later(4)) == 4

@pytest.mark.parametrize("a, b, expected", [(1, 2, 0.5), pytest.param(4, 2, 2, id="even")])
@pytest.mark.parametrize("sign", [1, -1])
def test_parameters(a, b, expected, sign):
    assert divide(sign * a, b) == pytest.approx(sign * expected)

@pytest.fixture
def half(whole=4, *, stack):
    return whole / stack.pop()

def test_defaults(a=4, *, b=2, half):
    assert divide(a, b) == half

def test_nothing_but_defaults(a=4):
    assert divide(a, 2) == 2

@pytest.mark.slow
class TestGrouped:
    def setup_method(self):
        self.stack = Stack([1])

    def test_one(self):
        assert self.stack.pop() == 1

class TestUnit(unittest.TestCase):
    def setUp(self):
        self.stack = Stack([1])

    def test_one(self):
        self.assertEqual(self.stack.pop(), 1)
        with self.assertRaises(Empty):
            self.stack.pop()
"""


def test_what_tests_may_use(sandbox: Service) -> None:
    result = sandbox.pytest(PROGRAM, GOOD)
    assert {test["id"].partition("::")[2]: test["detail"] for test in result["tests"]
            if test["verdict"] != "OK"} == {}  # fmt: skip
    assert result["reward"] == 1
    assert len(result["tests"]) == 15


WRONG = {
    "an assertion": ("assert divide(1, 2) == 1", "WA"),
    "an approximation": ("assert divide(1, 3) == pytest.approx(0.3333)", "WA"),
    "nothing raised": ("with pytest.raises(ValueError):\n        divide(1, 1)", "WA"),
    "another exception": ("with pytest.raises(KeyError):\n        divide(1, 0)", "RE"),
    "another message": ("with pytest.raises(Empty, match='full'):\n        Stack().pop()", "WA"),
    "pytest.fail": ("divide(1, 1)\n    pytest.fail('no')", "WA"),
    "a wrong type": ("len(divide(1, 2))", "WA"),
    "an exception": ("divide(1, 0)", "RE"),
    "a missing name": ("solution.missing(1)", "RE"),
    "a missing import": ("from solution import missing", "RE"),
    "a skip": ("divide(1, 1)\n    pytest.skip('later')", "UNSUPPORTED"),
    "a skip of unittest": ("divide(1, 1)\n    raise unittest.SkipTest('later')", "UNSUPPORTED"),
    "an exit": ("divide(1, 1)\n    sys.exit(0)", "WA"),
    "a hard exit": ("divide(1, 1)\n    os._exit(0)", "UNSUPPORTED"),
    "a test without the program": ("assert 1 + 1 == 2", "UNSUPPORTED"),
    "a comparison of its objects": ("assert Money(1) == Money(2)", "UNSUPPORTED"),
    "a caught comparison": (
        "try:\n        Money(1) == Money(2)\n    except BaseException:\n        pass",
        "UNSUPPORTED",
    ),
    "another part of pytest": ("divide(1, 1)\n    pytest.warns(UserWarning)", "UNSUPPORTED"),
    "an argument of its own class": (
        "class Own:\n        pass\n    divide(Own(), 1)", "UNSUPPORTED",
    ),
    "its own undefined name": ("divide(1, 1)\n    undefined_thing()", "UNSUPPORTED"),
}  # fmt: skip


def test_what_does_not_pass(sandbox: Service) -> None:
    header = "import os, sys, unittest\nimport pytest, solution\nfrom solution import divide\n"
    header += "from solution import Empty, Money, Stack\n"
    tests = "".join(
        f"\ndef test_{at}():\n    {body}\n" for at, (body, _) in enumerate(WRONG.values())
    )
    result = sandbox.pytest(PROGRAM, header + tests)
    got = dict(zip(WRONG, [test["verdict"] for test in result["tests"]], strict=True))
    assert got == {name: verdict for name, (_, verdict) in WRONG.items()}
    assert result["reward"] == 0


@pytest.mark.parametrize(
    ("tests", "says"),
    [
        ("def test_a(monkeypatch):\n    solution.f()", "monkeypatch"),
        ("from unittest.mock import patch\ndef test_a():\n    solution.f()", "mock"),
        ("def test_a(tmp_path):\n    solution.f()", "tmp_path"),
        ("def test_a():\n    open('x', 'w')\n    solution.f()", "open()"),
        ("import random\ndef test_a():\n    random.seed(1)\n    solution.f()", "random.seed()"),
    ],
)
def test_tests_that_need_one_process_are_unsupported(
    sandbox: Service, tests: str, says: str
) -> None:
    result = sandbox.pytest("def f(): return 1", "import solution\n" + tests)
    assert (result["verdict"], result["reward"]) == ("UNSUPPORTED", None)
    assert says in result["detail"]


@pytest.mark.parametrize(
    "test",
    [
        "async def test_a():\n    assert solution.f() == 2",
        "def test_a():\n    yield solution.f() == 2",
        "@pytest.mark.skip\ndef test_a():\n    assert solution.f() == 1",
        "@pytest.mark.xfail(reason='x')\ndef test_a():\n    assert solution.f() == 2",
        "@pytest.mark.parametrize('a', [])\ndef test_a(a):\n    assert solution.f() == a",
        "def test_a(unknown):\n    assert solution.f() == 1",
    ],
)
def test_tests_that_are_not_carried_out_pass_nothing(sandbox: Service, test: str) -> None:
    result = sandbox.pytest("def f(): return 1", f"import pytest, solution\n{test}")
    assert (result["verdict"], result["reward"]) == ("UNSUPPORTED", None)


@pytest.mark.parametrize(
    "body",
    [
        {"mode": "pytest", "files": {"test_a.py": "def helper(): pass"}},
        {"mode": "pytest", "files": {"test_a.py": "def test_a(:"}},
        {"mode": "assert", "tests": [{"code": "assert f( == 1"}]},
        {"mode": "assert", "setup": "import (", "tests": [{"code": "assert f() == 1"}]},
    ],
)
def test_tests_that_are_none_are_refused(sandbox: Service, body: dict[str, Any]) -> None:
    status, content = sandbox.ask("POST", "/v1/execute", {"id": "none", "code": "x = 1", **body})
    assert status == 422, content


def test_setup_runs_on_the_tests_side(sandbox: Service) -> None:
    code = "def area(r):\n    return 3.14159 * r * r"
    setup = "from math import pi, isclose\nRADIUS = 2"
    test = "assert isclose(area(RADIUS), pi * RADIUS**2, rel_tol=1e-4)"
    assert sandbox.asserts(code, test, setup=setup)["reward"] == 1
    assert sandbox.asserts(code, test.replace("1e-4", "1e-9"), setup=setup)["verdict"] == "WA"


def test_the_entry_point_may_have_a_librarys_name(sandbox: Service) -> None:
    """`gcd` is the program's where each test calls it, `sorted` where it is named so."""
    code = "def gcd(a, b):\n    return 99"
    tests = ["assert gcd(4, 6) in (2, 3)", "assert gcd(9, 6) in (3, 4)"]
    assert sandbox.asserts(code, *tests)["verdict"] == "WA"
    assert sandbox.asserts(code.replace("99", "3"), *tests)["verdict"] == "OK"
    code = "def sorted(items):\n    return [0]"
    judged = "assert list(sorted([2, 1])) == [1, 2]"
    assert sandbox.asserts(code, judged, entry_point="sorted")["verdict"] == "WA"
    assert sandbox.asserts(code, judged)["verdict"] == "UNSUPPORTED"


def test_helpers_of_the_program_can_be_used(sandbox: Service) -> None:
    code = (
        "class Pair:\n    def __init__(self, a, b):\n        self.a, self.b = a, b\n"
        "def total(pairs):\n    return sum(pair.a * pair.b for pair in pairs)"
    )
    test = "assert total([Pair(1, 2), Pair(3, 4)]) == 14"
    assert sandbox.asserts(code, test, entry_point="total")["reward"] == 1


def test_asserts_compare_as_python_does(sandbox: Service) -> None:
    code = "def f(x):\n    return x"
    equal = ["assert f((1, 2)) == (1, 2)", "assert f(1) == True", "assert {1, 2.0} == f({1.0, 2})"]
    assert sandbox.asserts(code, *equal)["reward"] == 1
    assert sandbox.asserts(code, "assert f((1, 2)) == [1, 2]")["verdict"] == "WA"
    assert sandbox.asserts(code, "assert f('1') == 1")["verdict"] == "WA"


def test_a_counter_counts_what_it_has_not(sandbox: Service) -> None:
    code = "from collections import Counter\ndef count(text): return Counter(text.split())"
    test = "c = count('a b a')\nassert c['a'] == 2 and c['z'] == 0 and c == {'a': 2, 'b': 1}"
    assert sandbox.asserts(code, test)["reward"] == 1
    assert sandbox.call(code, "count", ["a a"], {"a": 2})["reward"] == 1
