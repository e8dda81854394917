"""The warm interpreter and its supervisor: what they keep of programs, and what programs see."""

import os
import re
import socket
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

from tests.sandbox.tiers.stand import SMALL, Stand
from tests.sandbox.tiers.test_slots import children

FIND = """
needle = ''.join(reversed({!r})).encode()
found = 0
with open('/proc/self/maps') as maps, open('/proc/self/mem', 'rb', 0) as memory:
    for line in maps:
        span, rights = line.split()[:2]
        start, end = (int(part, 16) for part in span.split('-'))
        if rights[0] == 'r' and not line.rstrip().endswith(('[vvar]', '[vsyscall]')):
            try:
                memory.seek(start)
                found += memory.read(end - start).count(needle)
            except OSError:
                pass
print(found)
"""


def test_nothing_of_a_program_is_in_the_memory_of_the_next(stand: Stand) -> None:
    finds_nothing_of_another(stand)


def finds_nothing_of_another(stand: Stand) -> None:
    """Assert that no program finds what the one before it has read and written."""
    secret = os.urandom(16).hex()
    source = f"import sys\nprint(sys.argv, input(), file=sys.stderr)\nprint({secret!r})"
    first = stand.python(source, secret, stdin=secret.encode())
    assert first.stdout.decode().strip() == secret
    assert first.stderr.decode().count(secret) == 2
    looking, other = (FIND.format(one[::-1]) for one in (secret, os.urandom(16).hex()))
    own = int(stand.python(other).stdout)  # What it looks for is there too, once it looks.
    assert int(stand.python(f"x = {secret!r}\n{looking}").stdout) > own
    assert int(stand.python(looking).stdout) == own


def test_connections_of_others_on_the_machine_are_not_taken_for_the_programs(stand: Stand) -> None:
    keeps_its_network(stand)


def keeps_its_network(stand: Stand) -> None:
    """Assert that a slot does not renew its network for what others have left on the machine."""
    look = "import os; print(os.readlink('/proc/self/ns/net'))"
    before = stand.python(look).stdout
    with socket.create_server(("127.0.0.1", 0)) as server:
        client = socket.create_connection(server.getsockname())
        client.setblocking(False)
        with suppress(BlockingIOError):
            while True:
                client.send(bytes(2**16))
        client.close()  # With bytes that nobody takes: so it stays, as nobody's.
        orphans = re.search(r"orphan (\d+)", Path("/proc/net/sockstat").read_text())
        assert orphans is not None
        assert int(orphans[1]) > 0
        assert [stand.python(look).stdout for _ in range(3)] == [before] * 3


def test_much_output_does_not_stay_with_the_slot(own_stand: Stand) -> None:
    limits = replace(SMALL, memory=512 * 2**20, output=32 * 2**20)
    source = "import sys; sys.stdout.write('x' * (30 << 20)); sys.stderr.write('y' * (30 << 20))"
    own_stand.python("print()")
    before = children()
    for _ in range(3):
        run = own_stand.python(source, limits=limits)
        assert (len(run.stdout), len(run.stderr)) == (30 << 20, 30 << 20)
        assert own_stand.python("print('x')", limits=limits).stdout == b"x\n"
    assert children() == before


def test_orphans_are_reaped_while_the_program_runs(stand: Stand) -> None:
    source = (
        "import os, time\n"
        "for _ in range(200):\n    if os.fork() == 0:\n        if os.fork() == 0: os._exit(0)\n"
        "        os._exit(0)\n    os.wait()\n"
        "time.sleep(0.2)\nprint([n for n in os.listdir('/proc') if n.isdigit()])"
    )
    assert stand.python(source).stdout == b"['1', '2']\n"


def test_a_program_that_does_not_come_to_its_start_for_memory_is_told_so(own_stand: Stand) -> None:
    files = {"main.py": b"print()", "big": bytes(4 * SMALL.memory)}
    if own_stand.tier.enforces()["memory"].startswith("cgroup"):
        run = own_stand.run(("python", "main.py"), files, limits=SMALL)
        assert run.ending == "memory", run
    assert own_stand.python("print('as before')").stdout == b"as before\n"
