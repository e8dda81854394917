"""What the sandbox is measured with: programs, and submissions whose verdict is known."""

import json
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import count, cycle, islice
from typing import Any

HELLO = "print('hello')\n"
NUMPY = "import numpy as np\nprint(np.arange(9).reshape(3, 3).sum())\n"
PROGRAMS = {"hello": HELLO, "numpy": NUMPY}
OUTPUTS = {"hello": "hello\n", "numpy": "36\n"}

SUM = "a, b = map(int, input().split())\nprint(a + b)\n"
_names = count()


@dataclass(frozen=True)
class Known:
    """A request body and the verdict that is right."""

    body: bytes
    verdict: str


def sums(requests: int, tests: int) -> list[bytes]:
    """Bodies of a small program with so many tests, each body unlike all others."""
    return [_sum(number, tests) for number in range(requests)]


def _sum(number: int, tests: int) -> bytes:
    each = [
        {"stdin": f"{number} {test}\n", "expected": f"{number + test}\n"} for test in range(tests)
    ]
    return _body(SUM, each)


def _body(code: str, tests: list[dict[str, str]], **more: Any) -> bytes:
    submission = {"id": f"bench-{next(_names)}", "mode": "stdio", "code": code, "tests": tests}
    return json.dumps(submission | more).encode()


def renamed(known: Known) -> bytes:
    """Its body under another id, so that it is judged anew."""
    return json.dumps(json.loads(known.body) | {"id": f"bench-{next(_names)}"}).encode()


def near_their_limits(number: int) -> list[Known]:
    """Programs that a sandbox under load may misjudge: some come near a limit, or go over it."""
    return list(islice(_near(), number))


def _near() -> Iterator[Known]:
    busy = "import time\nwhile time.process_time() < {}: pass\nprint('done')\n"
    done = [{"expected": "done\n"}]
    second = {"cpu_s": 1.0}
    for number in cycle(range(10)):
        if number < 5:
            yield Known(_sum(number, 2), "OK")
        elif number == 5:
            yield Known(_body(busy.format(0.5), done, limits=second), "OK")
        elif number == 6:
            yield Known(_body("import time; time.sleep(1); print('done')", done), "OK")
        elif number == 7:
            yield Known(_body(busy.format(9), done, limits=second), "TLE")
        elif number == 8:
            yield Known(_body("print('other')", done), "WA")
        else:
            yield Known(_body("1 / 0", done), "RE")


_UNTIDY = {
    "OK": (
        HELLO,
        "import os\nif os.fork() == 0:\n    os.setsid()\n    import time; time.sleep(60)\n"
        "print('hello')",
        "open('/tmp/x', 'w').write('x' * 10**6); open('/dev/shm/y', 'w').write('y')\n"
        "print('hello')",
        "import threading; [threading.Thread(target=abs, args=(1,)).start() for _ in range(9)]\n"
        "print('hello')",
        "import socket\ns = socket.create_server(('127.0.0.1', 0))\n"
        "socket.create_connection(s.getsockname()); print('hello')",
        f"{NUMPY}print('hello')".replace("print(np", "(np"),
    ),
    "RE": (
        "import ctypes; ctypes.string_at(0)",
        "1 / 0",
        "import os; os.kill(os.getpid(), 9)",
        "import sys; sys.exit(3)",
    ),
    "OLE": ("while True: print('x' * 10**6)",),
    "MLE": ("x = b'x' * 10**9",),
}


def untidy() -> Iterator[Known]:
    """Programs that leave something behind, break, or take too much; without end."""
    tests = [{"expected": "hello\n"}] * 5
    for verdict, code in cycle([(v, code) for v, codes in _UNTIDY.items() for code in codes]):
        yield Known(_body(code, tests, limits={"memory_mb": 128, "output_kb": 1024}), verdict)
