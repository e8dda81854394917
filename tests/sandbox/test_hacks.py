"""Programs that want a reward without solving the task; none gets it, and honest ones do.

Each attack is tried where it could matter; the task is `add(a, b)` throughout.
"""

from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from tests.sandbox.service import Service

HONEST = "def add(a, b):\n    return a + b\n"
HACKS = {
    "wrong": "def add(a, b):\n    return a - b",
    "exit at import": "import os\nos._exit(0)",
    "exit in the call": "import os\ndef add(a, b):\n    os._exit(0)",
    "sys.exit in the call": "import sys\ndef add(a, b):\n    sys.exit(0)",
    "exit by a thread": (
        "import os, threading, time\n"
        "threading.Thread(target=lambda: (time.sleep(0.1), os._exit(0)), daemon=True).start()\n"
        "def add(a, b):\n    time.sleep(0.5)\n    return 0"
    ),
    "exit at exit": (
        "import atexit, os\natexit.register(lambda: os._exit(0))\ndef add(a, b):\n    return 0"
    ),
    "equal to all": (
        "class E:\n    def __eq__(s, o): return True\n    def __ne__(s, o): return False\n"
        "    def __sub__(s, o): return 0\n    def __abs__(s): return 0.0\n"
        "    def __lt__(s, o): return True\n    def __hash__(s): return 5\n"
        "def add(a, b):\n    return E()"
    ),
    "an int equal to all": (
        "class I(int):\n    def __eq__(s, o): return True\n    def __hash__(s): return 5\n"
        "def add(a, b):\n    return I(0)"
    ),
    "a list equal to all": (
        "class L(list):\n    def __eq__(s, o): return True\n    def __len__(s): return 1\n"
        "def add(a, b):\n    return L()"
    ),
    "prints success": (
        "print('2 passed'); print('OK'); print('ALL TESTS PASSED')\n"
        "import os\ndef add(a, b):\n    print('passed')\n    os._exit(0)"
    ),
    "reads command lines": (
        "import glob, re\ndef add(a, b):\n"
        "    for path in glob.glob('/proc/*/cmdline') + glob.glob('/proc/*/environ'):\n"
        "        try:\n            text = open(path, 'rb').read().decode()\n"
        "        except OSError:\n            continue\n"
        "        found = re.search(r'== *(\\d+)', text) or re.search(r'expected\\D*(\\d+)', text)\n"
        "        if found: return int(found.group(1))\n    return 0"
    ),
    "reads frames": (
        "import inspect, re\ndef add(a, b):\n"
        "    for frame in inspect.stack():\n"
        "        for value in [*frame.frame.f_locals.values(), *(frame.code_context or [])]:\n"
        "            found = re.search(r'(?:==|expected)\\D{0,4}(\\d+)', str(value))\n"
        "            if found: return int(found.group(1))\n    return 0"
    ),
    "reads files": (
        "import glob, re\ndef add(a, b):\n"
        "    for path in glob.glob('*') + glob.glob('../*') + glob.glob('/tmp/*'):\n"
        "        try:\n            text = open(path).read()\n"
        "        except (OSError, UnicodeDecodeError):\n            continue\n"
        "        found = re.search(r'add\\(2, 3\\) == (\\d+)', text)\n"
        "        if found: return int(found.group(1))\n    return 0"
    ),
    "patches builtins": (
        "import builtins\nbuiltins.abs = lambda x: 0\nbuiltins.exec = lambda *a: None\n"
        "builtins.AssertionError = Warning\nbuiltins.isinstance = lambda *a: True\n"
        "def add(a, b):\n    return 0"
    ),
    "brings its own abs": (
        "def abs(x):\n    return 0\ndef isclose(*a, **k):\n    return True\n"
        "class math:\n    isclose = staticmethod(lambda *a, **k: True)\n"
        "def add(a, b):\n    return 0"
    ),
    "patches json": (
        "import json\njson.dumps = lambda *a, **k: '{\"value\": 5}'\n"
        "json.loads = lambda *a, **k: 5\n"
        "def add(a, b):\n    return 0"
    ),
    "patches pytest and unittest": (
        "import sys, types, unittest\nsys.modules['pytest'] = types.ModuleType('pytest')\n"
        "unittest.TestCase.assertEqual = lambda *a: None\n"
        "unittest.TestCase.run = lambda *a: None\ndef add(a, b):\n    return 0"
    ),
    "writes a conftest": (
        "open('conftest.py', 'w').write('def pytest_runtest_makereport(item, call): pass')\n"
        "def add(a, b):\n    return 0"
    ),
    "raises a skip": (
        "import unittest\ndef add(a, b):\n    raise unittest.SkipTest('skipped')"
    ),
    "raises a warning for a failure": (
        "class AssertionError(Exception): pass\nclass Skipped(BaseException): pass\n"
        "def add(a, b):\n    raise Skipped()"
    ),
    "writes verdicts to every descriptor": (
        "import json, os, struct\ndef add(a, b):\n"
        "    for kind in (b'V', b'A', b'R', b'G'):\n"
        "        for told in ({'nonce': '', 'outcome': 'passed'}, {'value': 4, 'changed': {}}):\n"
        "            content = json.dumps(told).encode()\n"
        "            for fd in range(3, 20):\n"
        "                try: os.write(fd, struct.pack('>cI', kind, len(content)) + content)\n"
        "                except OSError: pass\n    return 0"
    ),
    "a huge value": "def add(a, b):\n    return 'x' * 20_000_000",
    "a deep value": (
        "def add(a, b):\n    value = 5\n    for _ in range(500): value = [value]\n    return value"
    ),
    "a value that holds itself": (
        "def add(a, b):\n    value = [5]\n    value.append(value)\n    return value"
    ),
    "hangs": "def add(a, b):\n    while True: pass",
    "sleeps": "import time\ndef add(a, b):\n    time.sleep(100)",
    "ends itself by a signal": "import os, signal\ndef add(a, b):\n    os.kill(os.getpid(), 9)",
    "another name": "def plus(a, b):\n    return a + b",
    "is empty": "",
}  # fmt: skip
LIMITS = {"cpu_s": 1, "wall_s": 1.5}


def _stdio(sandbox: Service, code: str) -> dict[str, Any]:
    program = f"{code}\nprint(add(int(input()), int(input())))"
    return sandbox.stdio(program, "5\n", "2\n3\n", limits=LIMITS)


def _function(sandbox: Service, code: str) -> dict[str, Any]:
    return sandbox.call(code, "add", [2, 3], 5, limits=LIMITS)


def _plain_assert(sandbox: Service, code: str) -> dict[str, Any]:
    return sandbox.asserts(code, "assert add(2, 3) == 5", limits=LIMITS)


def _judged_assert(sandbox: Service, code: str) -> dict[str, Any]:
    test = "import math\nassert abs(add(2, 3) - 5) < 1e-6 and math.isclose(add(2, 3), 5)"
    return sandbox.asserts(code, test, limits=LIMITS)


def _bare_assert(sandbox: Service, code: str) -> dict[str, Any]:
    """Without imports, as some data sets write them."""
    tests = ["assert math.isclose(add(2, 3), 5)", "assert isclose(add(2, 3), 5)"]
    return sandbox.asserts(code, *tests, limits=LIMITS)


def _check(sandbox: Service, code: str) -> dict[str, Any]:
    check = "def check(candidate):\n    assert candidate(2, 3) == 5\ncheck(add)"
    return sandbox.asserts(code, check, entry_point="add", limits=LIMITS)


def _pytest(sandbox: Service, code: str) -> dict[str, Any]:
    tests = "from solution import add\n\ndef test_add():\n    assert add(2, 3) == 5\n"
    return sandbox.pytest(code, tests, limits=LIMITS)


def _unittest(sandbox: Service, code: str) -> dict[str, Any]:
    tests = (
        "import unittest\nfrom solution import add\n\nclass TestAdd(unittest.TestCase):\n"
        "    def test_add(self):\n        self.assertEqual(add(2, 3), 5)\n"
    )
    return sandbox.pytest(code, tests, limits=LIMITS)


MODES = (
    _stdio, _function, _plain_assert, _judged_assert, _bare_assert, _check, _pytest, _unittest,
)  # fmt: skip
QUICK = sorted(set(HACKS) - {"hangs", "sleeps"})


@pytest.mark.parametrize("mode", MODES, ids=lambda mode: mode.__name__.strip("_"))
def test_the_honest_program_is_rewarded(sandbox: Service, mode: Any) -> None:
    result = mode(sandbox, HONEST)
    assert (result["verdict"], result["reward"]) == ("OK", 1), result


@pytest.mark.parametrize("hack", QUICK)
def test_no_hack_is_rewarded(sandbox: Service, hack: str) -> None:
    with ThreadPoolExecutor(4) as threads:
        results = list(threads.map(lambda mode: mode(sandbox, HACKS[hack]), MODES))
    for mode, result in zip(MODES, results, strict=True):
        assert result["reward"] != 1, (mode, result)
        assert result["verdict"] not in ("OK", "IE"), (mode, result)


@pytest.mark.parametrize("mode", [_stdio, _function, _check], ids=lambda mode: mode.__name__)
@pytest.mark.parametrize("hack", ["hangs", "sleeps"])
def test_what_does_not_end_is_ended(sandbox: Service, mode: Any, hack: str) -> None:
    result = mode(sandbox, HACKS[hack])
    assert (result["verdict"], result["reward"]) == ("TLE", 0), result


@pytest.mark.parametrize("code", ["from operator import *", "from operator import add"])
def test_a_name_from_the_library_is_the_programs_only_if_it_imports_it(
    sandbox: Service, code: str
) -> None:
    """Nothing is supplied by a preamble of ours; what the program itself imports is its own."""
    assert _function(sandbox, code)["reward"] == 1
    assert _function(sandbox, "x = heappush")["verdict"] == "RE"
    supplied = sandbox.call("x = gcd", "gcd", [4, 6], 2, limits=LIMITS)
    assert (supplied["verdict"], supplied["reward"]) == ("RE", 0)
