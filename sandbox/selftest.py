"""Tries a tier's protections with live programs, before it is offered to any.

A tier passes if each probe that should fail does, and honest programs run as they should. A probe
asks whether it could, and does no harm where it can: it reads canaries made for it, opens without
writing, sends no signal, and makes system calls that fail once they are let through.
"""

import os
import secrets
import socket
import tempfile
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path

from sandbox.tiers import Ending, Limits, Program, Run, Slot, SlotLost, Tier
from sandbox.tiers.seccomp import refused_numbers

_MIB = 2**20
_LIMITS = Limits(wall=20.0, cpu=5.0, memory=64 * _MIB, processes=16, output=2**16, files=4 * _MIB)
_WHERE = "/var/tmp"  # Not /tmp, which programs have anew.
_VARIABLE = "SANDBOX_CANARY"

_TRY = """
import ctypes, errno, os, socket, sys, time
libc = ctypes.CDLL(None, use_errno=True)
def attempt(what, action, *arguments):
    try:
        action(*arguments)
    except (OSError, ValueError, AttributeError):
        return
    print(what)
def call(what, number):
    # Of arguments that no such call accepts: refused for what it is, or else for these.
    ctypes.set_errno(0)
    libc.syscall(ctypes.c_long(number), *[ctypes.c_long(-1)] * 6)
    if ctypes.get_errno() not in (errno.EPERM, errno.ENOSYS):
        print(what)
"""


@dataclass(frozen=True)
class Probe:
    """A program, and what is wrong with a run of it (None: nothing)."""

    source: str
    wrong: Callable[[Run], str | None]
    limits: Limits = _LIMITS


@dataclass(frozen=True)
class Report:
    """What was tried; by name, None where it held, else what went wrong."""

    checks: Mapping[str, str | None]

    @property
    def passed(self) -> bool:
        """Whether all held."""
        return not self.failures

    @property
    def failures(self) -> Mapping[str, str]:
        """What went wrong."""
        return {name: wrong for name, wrong in self.checks.items() if wrong is not None}


@dataclass(frozen=True)
class Canaries:
    """What no program may get at."""

    file: Path
    secret: str
    port: int
    abstract: str


async def self_test(tier: Tier) -> Report:
    """Try a fresh slot of `tier` with every probe; one that promises nothing is not tried."""
    if "nothing" in tier.enforces().values():
        return Report({"isolation": f"the tier {tier.name} does not isolate"})
    with _canaries() as canaries:
        try:
            slot = await tier.slot()
        except SlotLost as lost:
            return Report({"a slot": f"cannot be made: {lost}"})
        try:
            probes = _probes(canaries)
            return Report({name: await _tried(slot, probe) for name, probe in probes.items()})
        finally:
            await slot.close()


async def _tried(slot: Slot, probe: Probe) -> str | None:
    files = {"main.py": probe.source.encode()}
    try:
        return probe.wrong(
            await slot.run(Program(("python", "main.py"), files, limits=probe.limits))
        )
    except SlotLost as lost:
        return f"the slot was lost: {lost}"


@contextmanager
def _canaries() -> Iterator[Canaries]:
    secret = secrets.token_hex(16)
    with (
        tempfile.TemporaryDirectory(dir=_WHERE) as folder,
        socket.create_server(("127.0.0.1", 0)) as server,
        socket.socket(socket.AF_UNIX) as abstract,
    ):
        os.chmod(folder, 0o755)
        file = Path(folder, "canary")
        file.write_text(secret)
        abstract.bind(f"\0{secret}")
        abstract.listen()
        os.environ[_VARIABLE] = secret
        try:
            yield Canaries(file, secret, server.getsockname()[1], f"\0{secret}")
        finally:
            del os.environ[_VARIABLE]


def _ends(*endings: Ending) -> Callable[[Run], str | None]:
    def wrong(run: Run) -> str | None:
        return None if run.ending in endings else f"it was not stopped: {_described(run)}"

    return wrong


def _prints(text: str, code: int = 0) -> Callable[[Run], str | None]:
    """It ends with `code`, having printed just `text`."""

    def wrong(run: Run) -> str | None:
        told = run.stdout.decode(errors="replace").strip()
        if (run.ending, run.exit_code, told) == ("exited", code, text):
            return None
        if run.ending == "exited" and told != text and not text:
            return f"a program could: {', '.join(told.splitlines()[:5])}"
        return f"unexpected: {_described(run)}"

    return wrong


def _described(run: Run) -> str:
    last = (run.stderr or run.stdout).decode(errors="replace").strip().rpartition("\n")[2]
    return f"{run.ending}, exit code {run.exit_code}, signal {run.signal}, {last[:200]!r}"


def _attempts(source: str) -> Probe:
    """A probe that prints what it managed."""
    return Probe(_TRY + source, _prints(""))


def _probes(canaries: Canaries) -> dict[str, Probe]:
    own = str(Path(__file__).resolve().parent)
    brief, busy = replace(_LIMITS, wall=0.5), replace(_LIMITS, cpu=0.3)
    flood = replace(_LIMITS, wall=5.0)
    return {
        "honest program": Probe("print('ok'); raise SystemExit(3)", _prints("ok", 3)),
        "honest use of memory": Probe(f"x = b'x' * {24 * _MIB}; print('ok')", _prints("ok")),
        "wall": Probe("import time; time.sleep(3)", _ends("wall"), brief),
        "cpu": Probe("import time\nwhile time.process_time() < 1: pass", _ends("cpu"), busy),
        "memory": Probe(f"{_PRECIOUS}x = b'x' * {256 * _MIB}", _ends("memory")),
        "memory of children": Probe(_CHILDREN, _ends("memory")),
        "output": Probe("for _ in range(2000): print('x' * 1000)", _ends("output"), flood),
        "processes": _attempts(_PROCESSES),
        "files": _attempts("attempt('write 16 MiB', lambda: open('x', 'wb').write(bytes(2**24)))"),
        "filesystem": _attempts(
            f"attempt('read a file of the host', open, {str(canaries.file)!r})\n"
            f"attempt('see the service', os.listdir, {own!r})\n"
            "attempt('read passwords', open, '/etc/shadow')\n"
            "for place in '/', '/etc', '/usr/bin', '/dev', sys.prefix:\n"
            "    if os.access(place, os.W_OK): print('write to ' + place)"
        ),
        "environment": _attempts(
            f"for pid in filter(str.isdigit, os.listdir('/proc')):\n"
            "    try: text = open(f'/proc/{pid}/environ').read()\n    except OSError: continue\n"
            f"    if {canaries.secret!r} in text: print('read a variable of the service')\n"
            f"if {_VARIABLE!r} in os.environ: print('read a variable of the service')"
        ),
        "network": _attempts(
            "attempt('reach a server of the host', socket.create_connection,\n"
            f"    ('127.0.0.1', {canaries.port}), 2)\n"
            "attempt('reach a local socket of the host',\n"
            f"    socket.socket(socket.AF_UNIX).connect, {canaries.abstract!r})\n"
            "for name, family in (('vsock', 40), ('netlink', 16), ('packet', 17), ('alg', 38)):\n"
            "    attempt('open a socket of ' + name, socket.socket, family, socket.SOCK_DGRAM, 0)"
        ),
        "system calls": _attempts(
            f"for what, number in {refused_numbers()!r}.items(): call(what, number)"
        ),
        "user": _attempts(_USER),
        "kernel settings": _attempts(
            "for name in 'sys/kernel/core_pattern', 'sys/vm/drop_caches', 'sysrq-trigger':\n"
            "    attempt('open ' + name, os.open, '/proc/' + name, os.O_WRONLY)"
        ),
        "processes of ours": _attempts(_OURS),
        "descriptors": _attempts(
            "for fd in range(3, 1024): attempt(f'use descriptor {fd}', os.fstat, fd)"
        ),
        "leaving something": Probe(_LEAVE, _prints("left")),
        "finding something": _attempts(_FIND),
    }


_PRECIOUS = """
try:  # To be killed after all others.
    with open('/proc/self/oom_score_adj', 'w') as file: file.write('0')
except OSError: pass
"""
_CHILDREN = """
import os, time
for _ in range(6):
    if os.fork() == 0:
        x = b'x' * 2**24
        time.sleep(2)
        os._exit(0)
for _ in range(6):
    os.wait()
"""
_PROCESSES = """
try:
    for made in range(40):
        if os.fork() == 0:
            time.sleep(3)
            os._exit(0)
    print('start 40 processes')
except OSError:
    pass
"""
_USER = """
for line in open('/proc/self/uid_map'):
    inside, outside, length = map(int, line.split())
    if inside <= os.getuid() < inside + length and outside + os.getuid() - inside == 0:
        print('be root on the host')
for line in open('/proc/self/status'):
    if line.startswith('Cap') and int(line.split()[1], 16):
        print('have capabilities: ' + line.strip())
    if line.startswith('NoNewPrivs') and line.split()[1] != '1':
        print('gain privileges')
attempt('become root', os.setuid, 0)
"""
_OURS = """
for pid in sorted(int(n) for n in os.listdir('/proc') if n.isdigit() and int(n) != os.getpid()):
    for name in 'mem', 'environ', 'maps':
        attempt(f'read {name} of {pid}', lambda: open(f'/proc/{pid}/{name}', 'rb').read(1))
    if pid > 1: attempt(f'send a signal to {pid}', os.kill, pid, 0)
"""
_LEAVE = """
import ctypes, os, time
for place in '/box', '/tmp', '/dev/shm':
    open(place + '/left', 'w').close()
ctypes.CDLL(None).shmget(7, 4096, 0o1666)
if os.fork() == 0:
    os.setsid()
    if os.fork() == 0:
        held = open('/tmp/left', 'w')
        time.sleep(5)
    os._exit(0)
print('left')
"""
_FIND = """
for pid in filter(str.isdigit, os.listdir('/proc')):
    try: held = [os.readlink(f'/proc/{pid}/fd/{n}') for n in os.listdir(f'/proc/{pid}/fd')]
    except OSError: continue
    if '/tmp/left' in held: print('find a process')
for place in '/box', '/tmp', '/dev/shm':
    attempt('find a file in ' + place, os.remove, place + '/left')
shared = libc.shmget(7, 1, 0)
if shared >= 0:
    print('find shared memory')
    libc.shmctl(shared, 0, None)
"""
