"""Programs that try to get out, to get at others, or to take more than their share.

They run in the sandbox under test and nowhere else, and aim at nothing but it and what the test
itself made. A program that asks what it could do prints `got NAME` for each thing it could.
"""

from dataclasses import dataclass, replace

from sandbox.tiers import Ending, Limits
from tests.sandbox.tiers.stand import SMALL

BRIEF = replace(SMALL, wall=1.0, cpu=5.0)
BUSY = replace(SMALL, cpu=0.5)
GRASP = """
import ctypes, errno, os, signal, socket, sys
libc = ctypes.CDLL(None, use_errno=True)
def grasp(name, what, *arguments):
    try:
        what(*arguments)
    except (OSError, ValueError, AttributeError):
        return
    print("got", name)
def call(name, number, *arguments):
    ctypes.set_errno(0)
    result = libc.syscall(ctypes.c_long(number), *map(ctypes.c_long, arguments))
    if result >= 0 or ctypes.get_errno() not in (errno.EPERM, errno.ENOSYS):
        print("got", name, result, ctypes.get_errno())
"""


@dataclass(frozen=True)
class Attack:
    """A program, and the endings that mean it was stopped."""

    source: str
    endings: tuple[Ending, ...]
    limits: Limits = SMALL


GREEDY: dict[str, Attack] = {
    "heap": Attack("b = bytearray(2**28); b[::4096] = b'x' * 2**16", ("memory",)),
    "shared mapping": Attack(
        "import mmap\nm = mmap.mmap(-1, 2**28)\nfor i in range(0, 2**28, 4096): m[i] = 1",
        ("memory",),
    ),
    "memfd": Attack(
        "import os\nfds = []\nwhile True:\n"
        "    fds.append(os.memfd_create('x'))\n    os.write(fds[-1], bytes(2**22))",
        ("memory",),
    ),
    "children": Attack(
        "import os, time\nfor _ in range(8):\n    if not os.fork():\n"
        "        b = b'x' * 2**24\n        time.sleep(30)\n        os._exit(0)\n"
        "while True: os.wait()",
        ("memory",),
    ),
    "file systems": Attack(
        "import itertools\nfor n in itertools.count():\n"
        "    for d in '/box', '/tmp', '/dev/shm':\n"
        "        with open(f'{d}/{n}', 'wb') as f: f.write(bytes(2**22))",
        ("memory",),
        replace(SMALL, files=64 * 2**20),
    ),
    "system V shared memory": Attack(
        "import ctypes\nc = ctypes.CDLL(None)\nc.shmat.restype = ctypes.c_void_p\n"
        "p = c.shmat(c.shmget(0, ctypes.c_size_t(2**28), 0o1600), None, 0)\n"
        "ctypes.memset(p, 1, 2**28)",
        ("memory",),
    ),
    "a child's memory, the parent ending well": Attack(
        "import os\nif not os.fork():\n    b = b'x' * 2**28\nos.wait()", ("memory",)
    ),
    "fork bomb": Attack(
        "import os\nwhile True:\n    try: os.fork()\n    except OSError: pass",
        ("cpu", "wall"),
        BUSY,
    ),
    "threads": Attack(
        "import threading, time\nwhile True:\n    try: threading.Thread(target=time.sleep, "
        "args=(60,), daemon=True).start()\n    except RuntimeError: pass",
        ("cpu", "wall", "memory"),
        BUSY,
    ),
    "loop": Attack("while True: pass", ("cpu",), BUSY),
    "loop that ignores signals": Attack(
        "import signal\nfor s in range(1, 65):\n    try: signal.signal(s, signal.SIG_IGN)\n"
        "    except (OSError, ValueError): pass\nwhile True: pass",
        ("cpu",),
        BUSY,
    ),
    "children's loops": Attack("import os\nos.fork(); os.fork()\nwhile True: pass", ("cpu",), BUSY),
    "loops of children nobody waits for": Attack(
        "import os, signal, time\nsignal.signal(signal.SIGCHLD, signal.SIG_IGN)\n"
        "while True:\n    if not os.fork():\n        t = time.process_time() + 0.05\n"
        "        while time.process_time() < t: pass\n        os._exit(0)\n    time.sleep(0.05)",
        ("cpu",),
        BUSY,
    ),
    "sleep": Attack("import time; time.sleep(60)", ("wall",), BRIEF),
    "stopping itself": Attack(
        "import os, signal; os.kill(os.getpid(), signal.SIGSTOP)", ("wall",), BRIEF
    ),
    "endless output": Attack("while True: print('x' * 1000)", ("output",)),
    "endless errors": Attack("import os\nwhile True: os.write(2, b'x' * 1000)", ("output",)),
    "endless output by a child": Attack(
        "import os\nif not os.fork():\n    while True: os.write(1, b'x' * 1000)\nos.wait()",
        ("output",),
    ),
}
"""Programs that would take too much: each is stopped, for the right reason."""

GRASPING: dict[str, str] = {
    "a file beyond its bound": "grasp('it', lambda: open('x', 'wb').write(bytes(2**24)))",
    "inodes beyond their bound": (
        "def fill():\n    for n in range(5000): open(f'/tmp/{n}', 'w').close()\ngrasp('them', fill)"
    ),
    "processes beyond their bound": (
        "made = 0\ntry:\n    while made < 40:\n        if os.fork() == 0: signal.pause()\n"
        "        made += 1\nexcept OSError: pass\nif made >= 24: print('got', made)"
    ),
    "passwords": "grasp('shadow', open, '/etc/shadow')\ngrasp('key', os.listdir, '/root/.ssh')",
    "its init": (
        "for name in 'mem', 'maps', 'environ', 'fd/0', 'cwd/x', 'auxv', 'stack', 'syscall':\n"
        "    grasp(name, lambda: open(f'/proc/1/{name}', 'rb').read(1))\n"
        "grasp('memory, to write', open, '/proc/1/mem', 'r+b')\n"
        "grasp('fds', os.listdir, '/proc/1/fd')"
    ),
    "others' processes": (
        "print(*['got ' + n for n in os.listdir('/proc') if n.isdigit() and n not in '12'])"
    ),
    "the kernel's settings": (
        "for name in ('sys/kernel/core_pattern', 'sys/vm/drop_caches', 'sys/kernel/hostname',\n"
        "    'sysrq-trigger', 'sys/user/max_user_namespaces', 'self/oom_score_adj',\n"
        "    'self/uid_map', 'kcore', 'kmsg'):\n"
        "    grasp(name, os.open, '/proc/' + name, os.O_WRONLY)\n"
        "grasp('log', os.open, '/proc/kmsg', os.O_RDONLY)"
    ),
    "files elsewhere": (
        "for d in ('/', '/usr/bin', '/usr/lib', '/etc', '/dev', '/sandbox', '/sandbox/lib',\n"
        "    '/proc', '/root', sys.prefix, '/bin', '/var', '/home'):\n"
        "    grasp(d, open, d + '/planted', 'w')\n"
        "grasp('filter', open, '/sandbox/filter', 'r+')\n"
        "grasp('chmod', os.chmod, '/etc/passwd', 0o777)\n"
        "grasp('interpreter', open, sys.executable, 'r+b')"
    ),
    "devices": (
        "print(*['got ' + n for n in os.listdir('/dev') if n not in ('null', 'zero', 'full',\n"
        "    'random', 'urandom', 'fd', 'stdin', 'stdout', 'stderr', 'shm')])\n"
        "grasp('node', os.mknod, 'disk', 0o60666, os.makedev(254, 0))"
    ),
    "sockets of other kinds": (
        "for family in set(range(1, 46)) - {1, 2, 10}:\n"
        "    for kind in (1, 2, 3, 5):\n        grasp(family, socket.socket, family, kind, 0)\n"
        "grasp('raw', socket.socket, socket.AF_INET, socket.SOCK_RAW, 1)\n"
        "grasp('sctp', socket.socket, socket.AF_INET, socket.SOCK_STREAM, 132)\n"
        "grasp('mptcp', socket.socket, socket.AF_INET, socket.SOCK_STREAM, 262)"
    ),
    "a way out of the network": (
        "for host in ('192.0.2.1', '169.254.169.254', '10.0.0.1', '8.8.8.8'):\n"
        "    s = socket.socket(); s.settimeout(1)\n    grasp(host, s.connect, (host, 80))\n"
        "u = socket.socket(type=socket.SOCK_DGRAM)\ngrasp('udp', u.sendto, b'x', ('8.8.8.8', 53))\n"
        "print(*['got ' + l for l in open('/proc/net/dev').readlines()[2:] if ' lo:' not in l])"
    ),
    "tracing": (
        "call('attach', 101, 16, 1, 0, 0)\ncall('seize', 101, 0x4206, 1, 0, 0)\n"
        "call('read', 310, 1, 0, 0, 0, 0, 0)\ncall('getfd', 438, 3, 0, 0)"
    ),
    "its init's limits and share": (
        "import resource\n"
        "grasp('limits', resource.prlimit, 1, resource.RLIMIT_CPU, (1, 1))\n"
        "grasp('share', os.setpriority, os.PRIO_PROCESS, 1, 19)\n"
        "grasp('shares', os.setpriority, os.PRIO_USER, 0, 19)\n"
        "grasp('idle', os.sched_setscheduler, 1, os.SCHED_IDLE, os.sched_param(0))\n"
        "grasp('processor', os.sched_setaffinity, 1, [0])"
    ),
    "namespaces": (
        "for name, flag in (('user', 0x10000000), ('mount', 0x20000), ('net', 0x40000000),\n"
        "    ('pid', 0x20000000), ('ipc', 0x8000000), ('uts', 0x4000000), ('cgroup', 0x2000000)):\n"
        "    call('unshare ' + name, 272, flag)\n"
        "    call('clone ' + name, 56, flag | 17, 0, 0, 0, 0)\n"
        "call('clone3', 435, 0, 0)\n"
        "fd = os.open('/proc/self/ns/net', os.O_RDONLY)\ncall('setns', 308, fd, 0)"
    ),
    "mounts": (
        "call('mount', 165, 0, 0, 0, 0, 0)\ncall('umount', 166, 0, 0)\n"
        "call('open_tree', 428, 0, 0, 0)\ncall('fsopen', 430, 0, 0)\n"
        "grasp('chroot', os.chroot, '/tmp')"
    ),
    "users and capabilities": (
        "grasp('root', os.setuid, 0)\ngrasp('groups', os.setgroups, [0])\n"
        "grasp('owner', os.chown, 'main.py', 0, 0)\n"
        "print(*['got ' + l for l in open('/proc/self/status') if l.startswith('Cap')\n"
        "    and int(l.split()[1], 16)])"
    ),
    "descriptors it was not given": (
        'for fd in range(3, 1024):\n    grasp(fd, os.write, fd, b\'{"ending": "exited"}\')'
    ),
    "limits to be raised": (
        "import resource\nfor kind in ('CPU', 'FSIZE', 'NOFILE', 'CORE'):\n"
        "    grasp(kind, resource.setrlimit, getattr(resource, 'RLIMIT_' + kind),\n"
        "        (2**40, 2**40))"
    ),
}
"""Programs that try what must fail; they print nothing if all of it does."""


def grasping(name: str) -> str:
    """The source of a grasping program."""
    return GRASP + GRASPING[name]
