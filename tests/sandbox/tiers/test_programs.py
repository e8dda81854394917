"""Honest programs in the namespaces tier: as outside, and the same each time."""

import asyncio
import shutil
from dataclasses import replace

import pytest

from sandbox.tiers import Channel, Limits
from tests.sandbox.tiers.stand import SMALL, Stand

SCRIPTS = {
    "ends well": "print('out')",
    "is empty": "",
    "raises": "def f(): 1/0\nf()",
    "does not compile": "print('x'\n",
    "exits with a number": "import sys; sys.exit(7)",
    "exits with a text": "raise SystemExit('sorry')",
    "exits with None": "raise SystemExit",
    "exits with a huge number": "raise SystemExit(2**40)",
    "exits from a thread": (
        "import sys, threading\nthreading.Thread(target=sys.exit, args=(3,)).start()"
    ),
    "leaves at once": "import os\nprint('lost')\nos._exit(5)",
    "is interrupted": "import os, signal, time\nos.kill(os.getpid(), signal.SIGINT); time.sleep(9)",
    "is terminated": "import os, signal\nos.kill(os.getpid(), signal.SIGTERM)",
    "breaks": "import ctypes; ctypes.string_at(0)",
    "aborts": "import os; print('x', flush=True); os.abort()",
    "has handlers at exit": "import atexit\natexit.register(print, 'bye')\nprint('hi')\n1/0",
    "deletes late": "class A:\n    def __del__(self): print('del')\na = A()\nprint('end')",
    "waits for a thread": (
        "import threading, time\n"
        "threading.Thread(target=lambda: (time.sleep(.1), print('late'))).start()\nprint('first')"
    ),
    "leaves a file unflushed": (
        "f = open('x', 'w'); f.write('y')\n"
        "import atexit\natexit.register(lambda: print(open('x').read()))"
    ),
    "closes its output": "import os\nos.close(1)\nprint('x')",
    "closes sys.stdout": "import sys\nsys.stdout.close()",
    "closes all its descriptors": "import os\nos.closerange(0, 100)",
    "exits well": "import sys\nprint('x')\nsys.exit(0)",
    "exits from a handler at exit": (
        "import atexit, os\natexit.register(os._exit, 4)\nprint('lost')"
    ),
    "raises in a handler at exit": "import atexit\natexit.register(int, 'x')\nprint('x')",
    "exits after its names are gone": "import sys\nx = sys.exit\nglobals().clear()",
    "exits once its names are cleared": (
        "import sys\ne = sys.exit\ndef f(e=sys.exit):\n    globals().clear()\n    e(3)\nf()"
    ),
    "raises a subclass": "class E(BaseException): pass\nraise E(3)",
    "is interrupted by a subclass": "class K(KeyboardInterrupt): pass\nraise K",
    "interrupts itself": "raise KeyboardInterrupt",
    "raises again what it caught": (
        "try:\n    1/0\nexcept ZeroDivisionError as e:\n    print('caught')\n    raise"
    ),
    "raises in a class body": "class A:\n    x = 1/0",
    "tells of what it caught": (
        "import sys, traceback\ntry:\n    1/0\nexcept ZeroDivisionError:\n"
        "    sys.last_type, sys.last_value, sys.last_traceback = sys.exc_info()\n"
        "    traceback.print_exc()\nprint('well')"
    ),
    "runs a console": (
        "import code\nc = code.InteractiveConsole(globals())\nc.push('1/0')\nprint('well')"
    ),
    "runs a failing script": (
        "import sys\ntry:\n    exec('1/0', globals())\nexcept ZeroDivisionError as e:\n"
        "    sys.last_type, sys.last_traceback = type(e), e.__traceback__.tb_next\nprint('well')"
    ),
    "deletes its traces": (
        "import atexit, sys\natexit.register(lambda: delattr(sys, 'last_traceback'))\n1/0"
    ),
    "raises, and hides it": "import sys\nsys.excepthook = lambda *a: None\n1/0",
    "has a failing stream": "import sys\nsys.stdout = open('/dev/full', 'w')\nprint('x')",
    "has a failing error stream": (
        "import sys\nsys.stderr = open('/dev/full', 'w')\nsys.stderr.write('x')"
    ),
    "has a stream of its own": (
        "import sys\nclass S:\n    def write(self, t): sys.__stdout__.write(t.upper())\n"
        "    def flush(self): sys.__stdout__.write('!')\nsys.stdout = S()\nprint('x')"
    ),
    "has no streams": "import sys\nsys.stdout = sys.stderr = None\nprint('x')",
    "replaces its main module": (
        "import sys, types\nsys.modules['__main__'] = types.ModuleType('__main__')\nprint('x')"
    ),
    "writes through C": (
        "import ctypes\nlibc = ctypes.CDLL(None)\nlibc.printf(b'from C')\nprint('from Python')"
    ),
    "deletes from everywhere": (
        "import builtins, sys, weakref\n"
        "class A:\n    def __init__(self, n): self.n = n\n"
        "    def __del__(self, p=print): p('del', self.n)\n"
        "a = A('main'); builtins.b = A('builtins'); sys.s = A('sys'); sys._t = A('_sys')\n"
        "c = A('cycle'); c.c = c\n"
        "import other; other.o = A('other'); o = A('ref')\n"
        "weakref.finalize(o, print, 'finalized'); weakref.ref(o, lambda r: print('ref'))\n"
        "def f():\n    yield A('generator')\ng = f(); next(g)"
    ),
    "flushes late": (
        "import sys\nclass A:\n    def __del__(self, w=sys.stdout.write): w('late')\n"
        "a = A(); keep = sys.stdout; print('first')"
    ),
    "logs": (
        "import logging, sys\nlogging.basicConfig(stream=sys.stdout)\n"
        "logging.error('x'); print('y')"
    ),
    "has a thread that does not end": (
        "import threading, time\n"
        "threading.Thread(target=time.sleep, args=(9,), daemon=True).start()\nprint('x')"
    ),
    "forks": (
        "import os\nif os.fork() == 0:\n    print('child')\nelse:\n"
        "    print(os.wait()[1], 'parent')"
    ),
    "forks a child that fails": (
        "import os, sys\nif os.fork() == 0:\n    sys.exit(3)\nprint(os.wait()[1])"
    ),
    "is silent about what it leaves": (
        "import sys\nprint('last' in vars(sys), hasattr(sys, 'last_type'))"
    ),
    "prints lone surrogates": "print('\\udc80\\udcff')",
    "prints what cannot be": "print('\\ud800')",
    "prints binary": "import sys; sys.stdout.buffer.write(bytes(range(256)))",
    "reads all": "import sys; print(len(sys.stdin.read()))",
    "reads lines": "print(input()); print(input())\ntry: input()\nexcept EOFError: print('end')",
    "reads binary": "import sys; print(sys.stdin.buffer.read())",
    "reads nothing": "print('no')",
    "recurses too deep": "def f(n): return f(n + 1)\nf(0)",
    "recurses to the limit": (
        "import sys\nd = 0\ndef f():\n    global d\n    d += 1\n    f()\n"
        "try: f()\nexcept RecursionError: print(d, sys.getrecursionlimit())"
    ),
    "recurses deeply": (
        "import sys\nsys.setrecursionlimit(10**6)\n"
        "def f(n): return 0 if n == 0 else 1 + f(n - 1)\nprint(f(50000))"
    ),
    "recurses deeply in C": (
        "import sys\nsys.setrecursionlimit(10**6)\nx = []\n"
        "for _ in range(20000): x = [x]\nprint(len(repr(x)))"
    ),
    "looks at its frames": (
        "import inspect, sys, traceback\nprint(len(inspect.stack()), sys._getframe().f_back)\n"
        "traceback.print_stack()"
    ),
    "looks at itself": (
        "import sys\nprint(__name__, __file__, __doc__, __package__, __spec__, __loader__.name,\n"
        "    sorted(globals()), sys.argv, sys.path, sys.flags, sys.stdin.encoding,\n"
        "    sys.stdout.errors, sys.stdout.line_buffering, sys.stdin.seekable(),\n"
        "    sys.getrecursionlimit(), sys.executable, sys.orig_argv, sys.prefix,\n"
        "    sys._base_executable)"
    ),
    "looks at its signals": (
        "import signal\n"
        "print([(s, str(signal.getsignal(s))[:20]) for s in signal.valid_signals()],\n"
        "    signal.pthread_sigmask(signal.SIG_BLOCK, ()))"
    ),
    "looks at its process": (
        "import os, threading, gc, resource\nprint(os.getpid(), os.getppid(), os.getcwd(),\n"
        "    os.umask(0o22), threading.main_thread() is threading.current_thread(),\n"
        "    threading.active_count(), gc.isenabled(), gc.get_threshold(),\n"
        "    sorted(os.environ.items()),\n"
        "    sorted(os.listdir('/proc/self/fd')), os.getpgid(0), os.getsid(0),\n"
        "    [resource.getrlimit(getattr(resource, n)) for n in dir(resource)\n"
        "        if n[:7] == 'RLIMIT_'])"
    ),
    "imports its neighbour": "import other; print(other.__file__, other.x)",
    "imports site": (
        "import sys, site; print('sitecustomize' in sys.modules, site.ENABLE_USER_SITE)"
    ),
    "runs processes": (
        "import subprocess, sys\nprint(subprocess.run([sys.executable, '-c', 'print(1)'],\n"
        "    capture_output=True).stdout, subprocess.getoutput('echo hi; exit 3'))"
    ),
    "forks a pool": (
        "import multiprocessing as m\nif __name__ == '__main__':\n"
        "    with m.get_context('fork').Pool(2) as p: print(p.map(abs, [-1, 2]))"
    ),
    "spawns a process": (
        "import multiprocessing as m\ndef f(q): q.put(3)\nif __name__ == '__main__':\n"
        "    c = m.get_context('spawn'); q = c.Queue()\n"
        "    p = c.Process(target=f, args=(q,)); p.start()\n"
        "    print(q.get()); p.join(); print(p.exitcode)"
    ),
    "is asynchronous": (
        "import asyncio\nasync def f(): await asyncio.sleep(0); print('x')\nasyncio.run(f())"
    ),
    "serves itself": (
        "import socket\ns = socket.create_server(('127.0.0.1', 0))\n"
        "c = socket.create_connection(s.getsockname()); a, _ = s.accept()\n"
        "a.send(b'x'); print(c.recv(9))"
    ),
}


@pytest.mark.parametrize("name", SCRIPTS)
def test_a_script_runs_as_by_a_fresh_interpreter(stand: Stand, name: str) -> None:
    files = {"main.py": SCRIPTS[name].encode(), "other.py": b"x = 1"}
    argv = ("python", "main.py", "-x", "a b")
    outcomes = []
    for words in (argv, ("env", *argv)):  # Only the first is run by the warm interpreter.
        run = stand.run(words, files, stdin=b"one\ntwo", limits=SMALL)
        outcomes.append((run.ending, run.exit_code, run.signal, run.stdout, run.stderr))
    assert outcomes[0] == outcomes[1]


def test_outputs_and_exit_code_come_back(stand: Stand) -> None:
    run = stand.python(
        "import sys\nprint(input())\nprint('e', file=sys.stderr)\nexit(3)", stdin=b"o"
    )
    assert (run.ending, run.exit_code, run.signal) == ("exited", 3, None)
    assert (run.stdout, run.stderr) == (b"o\n", b"e\n")
    assert 0 < run.wall < SMALL.wall
    assert 0 < run.cpu < SMALL.cpu


def test_equal_runs_give_equal_bytes_in_any_slot(stand: Stand, own_stand: Stand) -> None:
    source = (
        "import os, random, sys, time\n"
        "print(random.random(), {'a', 'b', 'c'}, hash('x'), os.getpid())\n"
        "print(object(), time.tzname, os.uname().nodename, sys.argv)\n"
        "try:\n    import numpy as np; print(np.random.rand(), np.ones(3) @ np.ones(3))\n"
        "except ImportError: pass"
    )
    runs = {stand.python(source).stdout for _ in range(20)}
    runs |= {own_stand.python(source).stdout for _ in range(3)}
    assert len(runs) == 1, runs


def test_much_input_that_nobody_reads_does_no_harm(stand: Stand) -> None:
    run = stand.python("print('done')", stdin=bytes(64 * 2**20))
    assert (run.ending, run.exit_code, run.stdout) == ("exited", 0, b"done\n")


def test_much_output_comes_whole_and_beyond_the_limit_is_cut(stand: Stand) -> None:
    limits = replace(SMALL, output=2**21)
    full = stand.python("import sys; sys.stdout.write('x' * 2**21)", limits=limits)
    over = stand.python("import sys; sys.stdout.write('x' * (2**21 + 1))", limits=limits)
    assert (full.ending, len(full.stdout)) == ("exited", 2**21)
    assert (over.ending, len(over.stdout)) == ("output", 2**21)


def test_memory_within_the_limit_can_be_used_and_is_measured(stand: Stand) -> None:
    run = stand.python("b = b'x' * (40 * 2**20)")
    assert run.ending == "exited"
    assert run.peak is None or 40 * 2**20 <= run.peak < 80 * 2**20


@pytest.mark.parametrize(
    ("tool", "argv", "files"),
    [
        ("bash", ("bash", "main.sh"), {"main.sh": b'read -r x; echo "$x"'}),
        ("perl", ("perl", "-e", "print scalar <STDIN>"), {}),
        ("cat", ("cat",), {}),
    ],
)
def test_other_programs_are_executed(
    stand: Stand, tool: str, argv: tuple[str, ...], files: dict[str, bytes]
) -> None:
    if shutil.which(tool) is None:
        pytest.skip(f"{tool} is not installed")
    run = stand.run(argv, files, stdin=b"hi\n")
    assert (run.ending, run.exit_code, run.stdout) == ("exited", 0, b"hi\n"), run


@pytest.mark.skipif(shutil.which("gcc") is None, reason="gcc is not installed")
def test_a_compiled_binary_comes_back_and_runs(stand: Stand) -> None:
    source = b'#include <stdio.h>\nint main() { int x; scanf("%d", &x); printf("%d\\n", x * 2); }'
    limits = Limits(memory=256 * 2**20)
    built = stand.run(
        ("gcc", "-o", "main", "main.c"), {"main.c": source}, keep=["main"], limits=limits
    )
    assert (built.ending, built.exit_code, built.stderr) == ("exited", 0, b"")
    run = stand.run(("./main",), {"main": built.kept["main"]}, stdin=b"21")
    assert (run.exit_code, run.stdout) == (0, b"42\n")


@pytest.mark.skipif(shutil.which("node") is None, reason="node is not installed")
def test_node_runs_without_a_limit_on_addresses(stand: Stand) -> None:
    source = (
        b"console.log(require('fs').readFileSync(0, 'utf8').trim().split('').reverse().join(''))"
    )
    limits = Limits(memory=256 * 2**20)
    run = stand.run(("node", "main.js"), {"main.js": source}, stdin=b"abc\n", limits=limits)
    assert (run.ending, run.exit_code, run.stdout) == ("exited", 0, b"cba\n"), run


@pytest.mark.parametrize(
    ("argv", "code"), [(("no-such-program",), 127), (("/etc/passwd",), 126), (("./main.py",), 126)]
)
def test_what_cannot_be_executed_ends_as_in_a_shell(
    stand: Stand, argv: tuple[str, ...], code: int
) -> None:
    run = stand.run(argv, {"main.py": b"print()"})
    assert (run.ending, run.exit_code) == ("exited", code), run
    assert run.stderr.count(b"\n") == 1


def test_files_larger_than_what_may_be_written_can_be_given(stand: Stand) -> None:
    size = SMALL.files + 2**20
    run = stand.run(("wc", "-c", "big"), {"big": bytes(size)})
    assert run.stdout.split() == [str(size).encode(), b"big"], run


def test_a_program_talks_over_its_channel(stand: Stand) -> None:
    heard = []

    async def talk(channel: Channel) -> None:
        await channel.write(b"ping")
        heard.append(await channel.read(100))
        heard.append(await channel.read(100))

    run = stand.python(
        "import socket\ns = socket.socket(fileno=3)\ns.send(s.recv(9).upper())\ns.close()\n"
        "print('x')",
        talk=talk,
    )
    assert heard == [b"PING", b""]
    assert run.ending in ("exited", "signalled")


@pytest.mark.parametrize("size", [1, 100_000])
def test_what_a_program_sends_just_before_its_end_arrives(stand: Stand, size: int) -> None:
    heard = bytearray()

    async def talk(channel: Channel) -> None:
        while part := await channel.read(1000):
            heard.extend(part)

    for _ in range(10):
        heard.clear()
        stand.python(f"import os\nos.write(3, bytes({size}))\nos._exit(0)", talk=talk)
        assert len(heard) == size


def test_a_program_ends_once_nobody_talks_to_it(stand: Stand) -> None:
    async def talk(channel: Channel) -> None:
        await channel.read(1)

    run = stand.python("import os, time\nos.write(3, b'x')\ntime.sleep(60)", talk=talk)
    assert (run.ending, run.signal) == ("signalled", 9)
    assert run.wall < SMALL.wall


def test_talk_ends_with_the_program(stand: Stand) -> None:
    async def talk(channel: Channel) -> None:
        await asyncio.sleep(60)

    run = stand.python("print('x')", talk=talk)
    assert (run.ending, run.exit_code, run.stdout) == ("exited", 0, b"x\n")


def test_a_channel_survives_the_programs_own_descriptors(stand: Stand) -> None:
    async def talk(channel: Channel) -> None:
        while await channel.read(1000):
            continue

    run = stand.python("import os\nprint(sorted(os.listdir('/proc/self/fd')))", talk=talk)
    assert run.stdout == b"['0', '1', '2', '3', '4']\n"


def test_what_a_talk_raises_is_raised_and_the_slot_stays(stand: Stand) -> None:
    async def talk(channel: Channel) -> None:
        await channel.read(1)
        raise KeyError("of the talk")

    with pytest.raises(KeyError, match="of the talk"):
        stand.python("import os, time\nos.write(3, b'x')\ntime.sleep(60)", talk=talk)
    assert stand.python("print('as before')").stdout == b"as before\n"


def test_writing_to_a_program_that_closed_its_end_is_an_error_of_the_talk(stand: Stand) -> None:
    async def talk(channel: Channel) -> None:
        while await channel.read(100):
            continue
        while True:
            await channel.write(b"x" * 1000)

    with pytest.raises(OSError, match=r"pipe|reset"):
        stand.python("import os, time\nos.close(3)\ntime.sleep(60)", talk=talk)
