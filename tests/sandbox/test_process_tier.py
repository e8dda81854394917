"""The tier without isolation: limits all the same, for programs that mean no harm."""

import asyncio
import os
import sys
from pathlib import Path

import pytest

from sandbox.tiers import Channel, Limits, Program, Run, Talk
from sandbox.tiers.process import Process
from tests.rewards.service import alive
from tests.waiting import eventually


def run(code: str, stdin: bytes = b"", talk: Talk | None = None, **limits: float) -> Run:
    async def whole() -> Run:
        slot = await Process(allow_unsafe=True).slot()
        program = Program(
            ("python", "main.py"), {"main.py": code.encode()}, stdin,
            Limits(**limits), channel=talk is not None, keep=["kept", "absent"],  # type: ignore[arg-type]
        )  # fmt: skip
        return await slot.run(program, talk)

    return asyncio.run(whole())


def descriptors() -> set[str]:
    return {name for name in os.listdir("/proc/self/fd") if os.path.exists(f"/proc/self/fd/{name}")}


def test_it_must_be_allowed() -> None:
    with pytest.raises(ValueError, match="--allow-unsafe"):
        Process()


def test_it_promises_nothing() -> None:
    enforced = Process(allow_unsafe=True).enforces()
    assert enforced["network"] == enforced["filesystem"] == "nothing"


def test_streams_files_and_exit_code() -> None:
    code = (
        "import sys\nopen('kept', 'w').write('x')\nprint(sys.stdin.read().upper())\n"
        "print('e', file=sys.stderr)\nsys.exit(3)"
    )
    ran = run(code, b"text" * 100_000)
    assert (ran.ending, ran.exit_code, ran.stderr) == ("exited", 3, b"e\n")
    assert ran.stdout == b"TEXT" * 100_000 + b"\n"
    assert ran.kept == {"kept": b"x"}
    assert 0 < ran.cpu < 10
    assert ran.peak


def test_input_that_is_not_read_does_no_harm() -> None:
    assert run("print(1)", b"x" * 2**22).stdout == b"1\n"


@pytest.mark.parametrize(
    ("code", "ending"),
    [
        ("while True: pass", "cpu"), ("import time; time.sleep(60)", "wall"),
        ("x = bytearray(2**28)\nwhile True: pass", "memory"),
        ("while True: print('x' * 1000)", "output"),
        ("import os; os.kill(os.getpid(), 11)", "signalled"),
        ("import signal\nfor s in (1, 2, 15, 24): signal.signal(s, signal.SIG_IGN)\n"
         "while True: pass", "cpu"),
    ],
)  # fmt: skip
def test_limits(code: str, ending: str) -> None:
    wall = 2.0 if ending == "wall" else 60.0  # A busy machine takes long to give half a second.
    ran = run(code, cpu=0.5, wall=wall, memory=2**27, output=10_000)
    assert ran.ending == ending
    assert len(ran.stdout) <= 10_000


def test_children_are_ended_with_it(tmp_path: Path) -> None:
    mark = tmp_path / "pid"
    code = f"""
import os, time
if os.fork() == 0:
    open({str(mark)!r}, "w").write(str(os.getpid()))
    time.sleep(60)
while not os.path.exists({str(mark)!r}) or not os.path.getsize({str(mark)!r}):
    time.sleep(0.01)
print("over")
"""
    assert run(code).stdout == b"over\n"
    child = int(mark.read_text())
    assert eventually(lambda: not alive({child}))


def test_the_channel_is_descriptor_3_and_nothing_else_is_open() -> None:
    heard: list[bytes] = []

    async def talk(channel: Channel) -> None:
        await channel.write(b"ping")
        heard.append(await channel.read(100))
        heard.append(await channel.read(100))

    code = (
        "import os, socket\nend = socket.socket(fileno=3)\nassert end.recv(4) == b'ping'\n"
        "end.sendall(repr(sorted(map(int, os.listdir('/proc/self/fd')))[:-1]).encode())"
    )
    before = descriptors()
    ran = run(code, talk=talk)
    assert heard == [b"[0, 1, 2, 3]", b""], ran.stderr
    assert descriptors() == before


def test_a_program_is_ended_when_the_talk_is() -> None:
    async def talk(channel: Channel) -> None:
        return

    assert run("import time; time.sleep(60)", talk=talk).wall < 30


def test_a_missing_interpreter_is_a_bad_end() -> None:
    async def whole() -> Run:
        slot = await Process(allow_unsafe=True).slot()
        return await slot.run(Program(("no-such-program",)))

    assert asyncio.run(whole()).exit_code == 127


def test_it_runs_our_own_python() -> None:
    assert run("import sys; print(sys.version)").stdout.decode().strip() == sys.version
