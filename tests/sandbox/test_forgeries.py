"""Programs that take over their end of the link to the tests, or send objects made to please.

What tests and service get from there is data of their choice; none of it may become a reward.
"""

import pytest

from tests.sandbox.service import Service

TAKE_OVER = """
import sys
f = sys._getframe()
while type(f.f_locals.get("self")).__name__ != "Harness": f = f.f_back
Harness = type(f.f_locals["self"])
plain = Harness._answer
def add(a, b): return 0
def describe(self, it):
    return ["o", self._number(it), "function", ["builtins", "f", None, [], False]]
def answer(self, request):
    return forged(self, request, plain(self, request))
Harness._answer = answer
"""
NEAR = "import math\nassert abs(add(2, 3) - 5) < 1e-6"
WITHIN = "assert 5 in add(2, 3)"
STAR = (
    "from solution import *\n\ndef test_add():\n"
    "    assert all(add(2, n) == 2 + n for n in (1, 2))\n"
)
OWN_MATH = (
    "import math\nfrom solution import *\n\ndef test_add():\n"
    "    assert math.isclose(add(2, 3), 5)\n"
)
FORGERIES = {
    "an exception that is a call of exec": (
        TAKE_OVER
        + '''
CODE = """
import os, sys
f = sys._getframe()
while "begin" not in f.f_locals: f = f.f_back
from inside import codec, frames
record = {"nonce": f.f_locals["begin"]["nonce"], "outcome": "passed", "detail": ""}
f.f_locals["link"]._stream.sendall(frames.framed(b"V", codec.write(record)))
os._exit(0)
"""
def forged(self, request, honest):
    if request["do"] != "call": return honest
    about = ["o", 9, "object", ["x", "y", None, [], False]]
    return {"raised": {"object": about, "builtin": "exec", "text": "", "args": ["t", CODE]}}
''',
        NEAR,
    ),
    "names that were not asked for": (
        TAKE_OVER
        + """
def forged(self, request, honest):
    if "found" in honest: honest["found"]["abs"] = [describe(self, lambda x: 0)]
    return honest
""",
        NEAR,
    ),
    "a class for a function, whose objects are near to all": (
        "class add:\n    def __init__(s, a, b): pass\n    def __sub__(s, o): return 0",
        NEAR,
    ),
    "the same by two steps": (
        "class add:\n    def __init__(s, a, b): pass\n    def __sub__(s, o): return s\n"
        "    def __abs__(s): return 0",
        NEAR,
    ),
    "an object that holds all": (
        "class E:\n    def __contains__(s, o): return True\ndef add(a, b): return E()",
        WITHIN,
    ),
    "an object that says yes to any beginning": (
        "class E:\n    def startswith(s, o): return True\ndef add(a, b): return E()",
        "assert add(2, 3).startswith('5')",
    ),
    "a method's object that is near to all": (
        "class Sum:\n    def __init__(s, *a): pass\n    def total(s): return s\n"
        "    def __sub__(s, o): return s\n    def __abs__(s): return 0\n"
        "    def __float__(s): return 0.0",
        "assert abs(Sum(2, 3).total() - 5) < 1e-6",
    ),
    "the same, as a float": (
        "class Sum:\n    def __init__(s, *a): pass\n    def total(s): return s\n"
        "    def __sub__(s, o): return s\n    def __float__(s): return 0.0",
        "import math\nassert math.isclose(Sum(2, 3).total() - 5, 0.0, abs_tol=1e-6)",
    ),
    "a builtin of its own, by star": ("def add(a, b): return 0\ndef all(x): return True", STAR),
    "a module of its own, by star": (
        "class math:\n    isclose = staticmethod(lambda *a: True)\nmath.__module__ = 'solution'\n"
        "def add(a, b): return 0",
        OWN_MATH,
    ),
    "all builtins, by star": (
        TAKE_OVER
        + """
class Yes:
    def __getitem__(s, name): return lambda *a, **k: 0
yes = Yes()
def forged(self, request, honest):
    if "found" in honest: honest["found"]["__builtins__"] = [self._kept(yes)]
    return honest
""",
        STAR,
    ),
    "answers of no sense": (
        TAKE_OVER + "def forged(self, request, honest): return [honest, None, 5]",
        NEAR,
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", FORGERIES)
def test_no_forgery_is_rewarded(sandbox: Service, name: str) -> None:
    code, test = FORGERIES[name]
    judge = sandbox.pytest if "def test" in test else sandbox.asserts
    result = judge(code, test, limits={"cpu_s": 2, "wall_s": 4})
    assert result["reward"] != 1, result
    assert result["verdict"] not in ("OK", "IE"), result


VECTOR = """
class Vector:
    def __init__(s, x, y): s.x, s.y = x, y
    def __add__(s, o): return Vector(s.x + o.x, s.y + o.y)
    def __mul__(s, k): return Vector(s.x * k, s.y * k)
    def __matmul__(s, o): return s.x * o.x + s.y * o.y
    def __abs__(s): return (s.x ** 2 + s.y ** 2) ** 0.5
    def __contains__(s, value): return value in (s.x, s.y)
"""


def test_operators_of_a_class_that_the_tests_name_work(sandbox: Service) -> None:
    tests = [
        "assert abs(Vector(3, 4)) == 5.0", "assert (Vector(3, 4) * 2).y == 8",
        "assert Vector(1, 2) @ Vector(3, 4) == 11", "assert (Vector(1, 2) + Vector(3, 4)).x == 4",
        "assert 3 in Vector(3, 4) and 5 not in Vector(3, 4)",
    ]  # fmt: skip
    assert sandbox.asserts(VECTOR, *tests)["reward"] == 1


def test_what_can_be_gone_through_holds_what_comes(sandbox: Service) -> None:
    code = (
        "from collections import deque\ndef waiting(): return deque([1, 2])\n"
        "def firsts(): yield from range(4)"
    )
    tests = ["assert 2 in waiting()", "assert 3 not in waiting()", "assert 3 in firsts()"]
    assert sandbox.asserts(code, *tests)["reward"] == 1


def test_star_gives_what_the_program_defines(sandbox: Service) -> None:
    code = "def add(a, b): return a + b\ndef gcd(a, b): return 7\n_hidden = 1"
    tests = STAR + "\ndef test_gcd():\n    assert gcd(1, 1) == 7\n"
    assert sandbox.pytest(code, tests)["reward"] == 1


def test_tests_hand_out_no_function_that_runs_what_the_program_says(sandbox: Service) -> None:
    code = "def add(run, a): return run('__import__(\"os\")._exit(0)')"
    result = sandbox.asserts(code, "assert add(eval, 2) == 5")
    assert result["verdict"] == "UNSUPPORTED", result
    honest = "def add(run, a): return run(a, 3)"
    assert sandbox.asserts(honest, "assert add(max, 2) == 3")["reward"] == 1


@pytest.mark.parametrize("mode", ["function", "assert"])
def test_text_that_is_no_unicode_is_a_fault_of_the_program(sandbox: Service, mode: str) -> None:
    """It cannot be told as it stands; the service once failed over it."""
    code = "def add(a, b): raise ValueError('\\ud800')"
    judged = (
        sandbox.call(code, "add", [2, 3], 5) if mode == "function" else sandbox.asserts(code, NEAR)
    )
    assert (judged["verdict"], judged["tests"][0]["detail"]) == ("RE", "ValueError: ?")


@pytest.mark.parametrize(
    ("code", "test", "verdict"),
    [
        ("def add(a, b):\n    print('x' * 5_000_000)\n    return 0", NEAR, "OLE"),
        (
            "def add(a, b):\n    while True: yield 'x'",
            "assert list(add(2, 3)) == [5]",
            "TLE",
        ),
    ],
    ids=["output", "items"],
)
def test_no_program_escapes_its_verdict_by_overwhelming_the_tests(
    sandbox: Service, code: str, test: str, verdict: str
) -> None:
    result = sandbox.asserts(code, test, limits={"cpu_s": 2, "wall_s": 2.5})
    assert (result["verdict"], result["reward"]) == (verdict, 0), result
