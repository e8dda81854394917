"""The tier docker, wherever a daemon answers and has the image; else all of this is skipped."""

import asyncio
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import docker
import pytest

from sandbox.selftest import self_test
from sandbox.tiers import Channel, Limits, NotOffered, Program, SlotLost, container
from sandbox.tiers import docker as docker_tier
from sandbox.tiers.docker import LABEL, Docker, Settings
from tests.sandbox.tiers.attacks import GRASPING, GREEDY, grasping
from tests.sandbox.tiers.stand import SMALL, Stand
from tests.sandbox.tiers.test_slots import below
from tests.sandbox.tiers.test_zygote import finds_nothing_of_another, keeps_its_network
from tests.waiting import eventually

ROOT = Path(__file__).resolve().parents[3]
IMAGE = os.environ.get("SANDBOX_IMAGE", "posttrain-sandbox")
HELLO = Program(("python", "main.py"), {"main.py": b"print('hello')"}, limits=SMALL)
SLEEP = Program(("python", "main.py"), {"main.py": b"import time; time.sleep(60)"}, limits=SMALL)
ELSEWHERE = {"others' processes", "the kernel's settings", "devices"}
"""Attacks whose table entry speaks of how the namespaces tier looks from inside."""


@pytest.fixture(scope="module")
def tier() -> Docker:
    try:
        return Docker(Settings(image=IMAGE))
    except NotOffered as lack:
        pytest.skip(str(lack))


@pytest.fixture(scope="module")
def stand(tier: Docker) -> Iterator[Stand]:
    made = Stand(tier)
    yield made
    made.close()


def containers(**which: bool) -> list[str]:
    """Those of this process that run; or `all`."""
    found = docker.from_env().containers.list(filters={"label": LABEL}, **which)
    return [one.id for one in found if one.labels[LABEL].startswith(f"{os.getpid()}-")]


def test_it_passes_the_self_test(tier: Docker) -> None:
    assert asyncio.run(self_test(tier)).failures == {}


@pytest.mark.parametrize("name", GREEDY)
def test_a_program_that_takes_too_much_is_ended_for_it(stand: Stand, name: str) -> None:
    attack = GREEDY[name]
    run = stand.python(attack.source, limits=attack.limits)
    assert run.ending in attack.endings, run
    assert stand.python("print('as before')").stdout == b"as before\n"


@pytest.mark.parametrize("name", sorted(set(GRASPING) - ELSEWHERE))
def test_a_program_gets_at_nothing_it_should_not(stand: Stand, name: str) -> None:
    run = stand.python(grasping(name))
    assert (run.ending, run.exit_code) == ("exited", 0), run
    assert run.stdout.strip() == b"", run.stdout


def test_a_program_leaves_nothing_to_the_next(stand: Stand) -> None:
    stand.python(
        "import ctypes, os, time\nc = ctypes.CDLL(None)\nassert c.shmget(7, 4096, 0o1666) >= 0\n"
        "for d in '/box', '/tmp', '/dev/shm': open(d + '/left', 'w').close()\n"
        "os.makedirs('/tmp/' + 'a/' * 500)\nos.chmod('/tmp/a', 0)\n"
        "if os.fork() == 0:\n    os.setsid(); time.sleep(60)"
    )
    run = stand.python(
        "import ctypes, os\nprint(os.listdir('/box'), os.listdir('/tmp'), os.listdir('/dev/shm'))\n"
        "print(ctypes.CDLL(None).shmget(7, 1, 0))\n"
        "print(len([n for n in os.listdir('/proc') if n.isdigit()]))"
    )
    assert run.stdout == b"['main.py'] [] []\n-1\n4\n", run


def test_nothing_of_a_program_is_in_the_memory_of_the_next(stand: Stand) -> None:
    """As the interpreter once forked, for each, knew what the ones before had read and printed."""
    finds_nothing_of_another(stand)


def test_connections_of_others_on_the_machine_are_not_taken_for_the_programs(stand: Stand) -> None:
    keeps_its_network(stand)


def test_what_cannot_be_wiped_has_the_container_replaced(stand: Stand) -> None:
    before = containers()
    depth = "os.mkdir('a'); os.chdir('a')\n"
    run = stand.python(f"import os\nos.chdir('/tmp')\nfor _ in range(3000): {depth}")
    assert run.exit_code == 0, run
    assert stand.python("import os; print(os.listdir('/tmp'))").stdout == b"[]\n"
    assert containers() != before


def test_programs_run_as_outside(stand: Stand) -> None:
    source = (
        "import sys\nprint(sys.argv, input(), __file__)\nprint('e', file=sys.stderr)\nsys.exit(3)"
    )
    for words in (("python", "main.py", "a"), ("env", "python", "main.py", "a")):
        run = stand.run(words, {"main.py": source.encode()}, stdin=b"in\n")
        assert (run.ending, run.exit_code) == ("exited", 3), run
        assert run.stdout == b"['main.py', 'a'] in /box/main.py\n"
        assert run.stderr == b"e\n"


def test_a_compiled_binary_comes_back_and_runs(stand: Stand) -> None:
    if stand.run(("gcc", "--version")).exit_code != 0:
        pytest.skip("the image has no gcc")
    source = b'#include <stdio.h>\nint main() { puts("hi"); }'
    limits = Limits(memory=256 * 2**20)
    built = stand.run(
        ("gcc", "-o", "main", "main.c"), {"main.c": source}, keep=["main"], limits=limits
    )
    assert stand.run(("./main",), {"main": built.kept["main"]}).stdout == b"hi\n"


def test_much_goes_in_and_out(stand: Stand) -> None:
    limits = replace(SMALL, output=2**22, memory=256 * 2**20)
    source = "import sys; sys.stdout.write(sys.stdin.read())"
    run = stand.python(source, stdin=b"x" * 2**22, limits=limits)
    assert (run.ending, len(run.stdout)) == ("exited", 2**22)


def test_a_program_talks_over_its_channel(stand: Stand) -> None:
    heard = []

    async def talk(channel: Channel) -> None:
        await channel.write(b"ping")
        heard.append(await channel.read(100))

    source = (
        "import socket, time\ns = socket.socket(fileno=3)\ns.send(s.recv(9).upper())\n"
        "time.sleep(60)"
    )
    run = stand.python(source, talk=talk)
    assert heard == [b"PING"]
    assert (run.ending, run.signal) == ("signalled", 9)
    assert stand.python("print('as before')").stdout == b"as before\n"


def test_a_container_removed_under_a_program_is_lost_and_replaced(tier: Docker) -> None:
    stand = Stand(tier)
    others = set(containers())
    slot = stand.slot
    (own,) = set(containers()) - others

    async def remove() -> None:
        running = asyncio.ensure_future(slot.run(SLEEP))
        await asyncio.sleep(0.5)
        await asyncio.to_thread(docker.from_env().api.kill, own)
        await running

    with pytest.raises(SlotLost):
        stand.do(remove())
    assert stand.do(slot.run(HELLO)).stdout == b"hello\n"
    stand.close()
    assert eventually(lambda: set(containers()) == others)


@pytest.mark.parametrize("victim", [1, 2], ids=["supervisor", "interpreter"])
def test_a_container_with_a_process_of_ours_killed_is_lost_and_replaced(
    tier: Docker, victim: int
) -> None:
    stand = Stand(tier)
    others = set(containers())
    slot = stand.slot
    (own,) = set(containers()) - others
    ours = below(docker.from_env().containers.get(own).attrs["State"]["Pid"])

    async def kill() -> None:
        running = asyncio.ensure_future(slot.run(SLEEP))
        await asyncio.sleep(0.5)
        os.kill(ours[victim], signal.SIGKILL)
        await running

    with pytest.raises(SlotLost):
        stand.do(kill())
    assert stand.do(slot.run(HELLO)).stdout == b"hello\n"
    stand.close()


def test_a_program_nobody_waits_for_is_killed_and_its_container_stays(stand: Stand) -> None:
    stand.python("")
    before = containers()

    async def abandon() -> None:
        running = asyncio.ensure_future(stand.slot.run(SLEEP))
        await asyncio.sleep(0.3)
        running.cancel()
        with pytest.raises(asyncio.CancelledError):
            await running

    stand.do(abandon())
    assert stand.python("print('as before')").stdout == b"as before\n"
    assert containers() == before


SERVICE = """
import asyncio, sys
from sandbox.tiers import Program
from sandbox.tiers.docker import Docker, Settings
async def main():
    slot = await Docker(Settings(image=sys.argv[1])).slot()
    running = asyncio.ensure_future(slot.run(Program(("sleep", "1000"))))
    await asyncio.sleep(0.5)
    print("running", flush=True)
    await running
asyncio.run(main())
"""


@pytest.mark.usefixtures("tier")
def test_no_container_outlives_a_killed_service() -> None:
    service = subprocess.Popen(
        [sys.executable, "-c", SERVICE, IMAGE], cwd=ROOT, stdout=subprocess.PIPE, text=True
    )
    assert service.stdout is not None
    assert service.stdout.readline() == "running\n"
    service.kill()
    service.communicate(timeout=30)

    def left() -> bool:
        found = docker.from_env().containers.list(all=True, filters={"label": LABEL})
        return any(one.labels[LABEL].startswith(f"{service.pid}-") for one in found)

    assert eventually(lambda: not left())


@pytest.mark.usefixtures("tier")
def test_containers_of_the_dead_are_reaped_at_the_next_start_if_they_can_be_told() -> None:
    """Of services in another process namespace it cannot be seen here whether they run."""
    client = docker.from_env()
    own = docker_tier._service().split("-", 2)[2]
    strays = [
        client.containers.run(
            IMAGE, ["sleep", "1000"], detach=True, network_mode="none", auto_remove=True,
            labels={LABEL: f"999999999-5-{where}"},
        )
        for where in (own, f"1{own}")
    ]  # fmt: skip
    try:
        Docker(Settings(image=IMAGE))
        left = [one.id for one in client.containers.list(all=True)]
        assert [stray.id in left for stray in strays] == [False, True]
    finally:
        strays[1].remove(force=True)


def test_a_container_given_up_while_it_is_made_does_not_stay(
    tier: Docker, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = containers(all=True)
    monkeypatch.setattr(container, "_READY_WITHIN", 0.001)
    stand = Stand(tier)
    with pytest.raises(SlotLost):
        stand.do(tier.slot())
    stand.do(asyncio.to_thread(docker.from_env().ping))
    stand.loop.run_until_complete(stand.loop.shutdown_default_executor())
    stand.close()
    assert eventually(lambda: containers(all=True) == before)


@pytest.mark.usefixtures("tier")
def test_a_missing_image_is_told_with_what_to_do() -> None:
    with pytest.raises(NotOffered, match="Dockerfile"):
        Docker(Settings(image="no-such-image-of-ours"))


def test_no_daemon_is_told_with_what_to_do(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DOCKER_HOST", "unix:///nowhere/docker.sock")
    with pytest.raises(NotOffered, match="no Docker daemon answers"):
        Docker()
