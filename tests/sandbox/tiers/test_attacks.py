"""Hostile programs against the namespaces tier, and that the slot is as before after each."""

import os
import platform
import socket
import threading
from pathlib import Path

import pytest

from sandbox.tiers import seccomp
from tests.sandbox.tiers.attacks import BRIEF, GRASP, GRASPING, GREEDY, grasping
from tests.sandbox.tiers.stand import Stand

ROOT = Path(__file__).resolve().parents[3]
X86 = pytest.mark.skipif(platform.machine() != "x86_64", reason="numbers of x86_64 system calls")


@pytest.mark.parametrize("name", GREEDY)
def test_a_program_that_takes_too_much_is_ended_for_it(stand: Stand, name: str) -> None:
    attack = GREEDY[name]
    run = stand.python(attack.source, limits=attack.limits)
    assert run.ending in attack.endings, run
    assert len(run.stdout) <= attack.limits.output
    assert len(run.stderr) <= attack.limits.output
    assert stand.python("print('as before')").stdout == b"as before\n"


@pytest.mark.parametrize("name", GRASPING)
def test_a_program_gets_at_nothing_it_should_not(stand: Stand, name: str) -> None:
    run = stand.python(grasping(name))
    assert (run.ending, run.exit_code) == ("exited", 0), run
    assert run.stdout.strip() == b"", run.stdout


@X86
def test_each_refused_system_call_is_refused(stand: Stand) -> None:
    numbers = seccomp.refused_numbers()
    run = stand.python(GRASP + f"for n, k in {numbers!r}.items(): call(n, k, 0, 0, 0, 0, 0, 0)")
    assert len(numbers) > 70
    assert (run.exit_code, run.stdout) == (0, b""), run


@X86
@pytest.mark.parametrize("code", ["b814000000cd80c3", "b8270000400f05c3"], ids=["32 bit", "x32"])
def test_other_ways_into_the_kernel_end_the_program(stand: Stand, code: str) -> None:
    run = stand.python(
        f"import ctypes, mmap\nm = mmap.mmap(-1, 4096, prot=7)\nm.write(bytes.fromhex('{code}'))\n"
        "at = ctypes.addressof(ctypes.c_char.from_buffer(m))\nctypes.CFUNCTYPE(ctypes.c_int)(at)()"
    )
    assert (run.ending, run.signal) == ("signalled", 31), run


def test_signals_do_not_reach_its_init(stand: Stand) -> None:
    run = stand.python(
        "import os, signal\nfor s in range(1, 65):\n"
        "    for pid in (1, -1):\n"
        "        if (pid, s) == (-1, signal.SIGSTOP): continue\n"
        "        try: os.kill(pid, s)\n        except OSError: pass\nprint('alive')"
    )
    assert (run.ending, run.exit_code, run.stdout) == ("exited", 0, b"alive\n"), run


def test_nothing_of_the_service_is_in_sight(
    stand: Stand, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    canary = "canary-8c1f6c"
    (tmp_path / canary).write_text(canary)
    tmp_path.chmod(0o755)
    monkeypatch.setenv("CANARY", canary)
    run = stand.python(
        "import os, sys\n"
        f"for path in {[str(tmp_path), str(ROOT), '/root/.cache', '/home', '/var']!r}:\n"
        "    if os.path.exists(path): print('sees', path)\n"
        "for pid in filter(str.isdigit, os.listdir('/proc')):\n"
        "    for name in 'environ', 'cmdline':\n"
        "        try: text = open(f'/proc/{pid}/{name}').read()\n"
        "        except OSError: continue\n"
        "        if 'canary' in text: print('reads', pid)\n"
        "print(sorted(os.environ))"
    )
    assert run.stdout.decode().splitlines() == [
        "['HOME', 'LANG', 'MKL_NUM_THREADS', 'OMP_NUM_THREADS', 'OPENBLAS_NUM_THREADS', 'PATH',"
        " 'PWD', 'PYTHONHASHSEED', 'TZ']"
    ], run


def test_servers_of_the_host_cannot_be_reached(stand: Stand) -> None:
    with socket.create_server(("127.0.0.1", 0)) as tcp, socket.socket(socket.AF_UNIX) as abstract:
        abstract.bind("\0sandbox-canary")
        abstract.listen()
        source = (
            "print('probed')\n"
            f"grasp('tcp', socket.create_connection, ('127.0.0.1', {tcp.getsockname()[1]}), 1)\n"
            "grasp('abstract', socket.socket(socket.AF_UNIX).connect, '\\0sandbox-canary')\n"
            "for path in '/var/run/docker.sock', '/run/docker.sock':\n"
            "    grasp(path, socket.socket(socket.AF_UNIX).connect, path)"
        )
        assert stand.python(GRASP + source).stdout == b"probed\n"


def test_a_daemon_is_gone_with_its_program(stand: Stand) -> None:
    run = stand.python(
        "import os, time\nif os.fork() == 0:\n    os.setsid()\n    if os.fork() == 0:\n"
        "        time.sleep(100)\n    os._exit(0)\nprint('parent')",
        limits=BRIEF,
    )
    assert (run.ending, run.exit_code, run.stdout) == ("exited", 0, b"parent\n"), run
    assert run.wall < BRIEF.wall
    assert stand.python(grasping("others' processes")).stdout.strip() == b""


def test_a_program_leaves_nothing_to_the_next(stand: Stand) -> None:
    stand.python(
        "import ctypes, os, socket\n"
        "for d in '/box', '/tmp', '/dev/shm': open(d + '/left', 'w').close()\n"
        "c = ctypes.CDLL(None)\nassert c.shmget(7, 4096, 0o1600) >= 0\n"
        "assert c.semget(7, 1, 0o1600) >= 0\nassert c.msgget(7, 0o1600) >= 0\n"
        "assert c.mq_open(b'/left', 0o102, 0o600, None) >= 0\n"
        "with socket.create_server(('127.0.0.1', 4000)) as s:\n"
        "    a = socket.create_connection(('127.0.0.1', 4000)); b, _ = s.accept()\n"
        "    b.close(); a.close()\n"
    )
    run = stand.python(
        "import ctypes, os\nprint(os.listdir('/box'), os.listdir('/tmp'), os.listdir('/dev/shm'))\n"
        "c = ctypes.CDLL(None)\n"
        "print(c.shmget(7, 1, 0), c.semget(7, 1, 0), c.msgget(7, 0), c.mq_open(b'/left', 0))\n"
        "print(len(open('/proc/net/tcp').readlines()))"
    )
    assert run.stdout == b"['main.py'] [] []\n-1 -1 -1 -1\n1\n", run


def test_only_regular_files_are_kept(stand: Stand) -> None:
    run = stand.python(
        "import os\nos.symlink('/etc/passwd', 'link')\nos.mkfifo('pipe')\nos.mkdir('folder')\n"
        "open('file', 'w').write('kept')\nos.chmod('file', 0)\nos.link('file', 'other')",
        keep=("link", "pipe", "folder", "file", "other", "absent"),
    )
    assert run.kept == {"file": b"kept", "other": b"kept"}


def test_slots_are_different_users_of_the_host(own_stand: Stand) -> None:
    if os.geteuid() != 0:
        pytest.skip("only root can give slots users of their own")
    others = _children()
    own_stand.python("")
    second = own_stand.do(own_stand.tier.slot())
    users = [_user(pid) for pid in _children() - others]
    own_stand.do(second.close())
    assert 0 not in users
    assert len(set(users)) == len(users) == 2


def _children() -> set[str]:
    return set(Path(f"/proc/self/task/{threading.get_native_id()}/children").read_text().split())


def _user(pid: str) -> int:
    lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith("Uid:"))
