"""What must hold under strain: verdicts when ten times too much comes, nothing left by a soak."""

import asyncio
import os
import time
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path

import aiohttp

from sandbox.tiers import cgroup
from tests.bench import sandbox_programs
from tests.bench.figures import Row, Spread, measured
from tests.bench.sandbox_programs import Known
from tests.bench.servers import Server
from tests.rewards.service import descendants
from tests.sandbox.service import serving

SLOTS = 2
QUEUE = 16
TIMES = 10
"""Overload: so many times what the service has room for, at once."""

SUBMISSIONS = 260
PAUSE = 0.3
LONGEST = 240.0
SOAK = 20_000
WARM_UP = 2_000
TESTS = 5
AT_ONCE = 8
_BUSY = 429


@dataclass
class Tally:
    """Verdicts that came and were right or not, and how often the service had no room."""

    refused: int = 0
    judged: int = 0
    slow: list[str] = field(default_factory=list)
    wrong: list[str] = field(default_factory=list)

    def count(self, known: Known, result: dict[str, object]) -> None:
        self.judged += 1
        if result["verdict"] == known.verdict:
            return
        told = f"{known.verdict} was judged {result['verdict']} ({result['id']})"
        (self.slow if result["verdict"] == "TLE" else self.wrong).append(told)


def overload(folder: Path) -> list[Row]:
    """Ten times what there is room for; who is refused comes again."""
    options = ["--slots", str(SLOTS), "--queue", str(QUEUE)]
    room = SLOTS + QUEUE
    with serving(folder, *options) as service:
        known = sandbox_programs.near_their_limits(SUBMISSIONS)
        tally = asyncio.run(_judged(service.url, known, TIMES * room))
    what = f"{TIMES}x overload ({TIMES * room} at once, room for {room})"
    return [
        Row(f"{what}: replies 429", f"{tally.refused:,}", ">= 1", tally.refused >= 1),
        _none(f"{what}: false TLE in {tally.judged} verdicts", tally.slow),
        _none(f"{what}: other wrong verdicts", tally.wrong),
    ]


def _none(what: str, found: list[str]) -> Row:
    return Row(what, "; ".join([str(len(found)), *found[:3]]), "0", not found)


async def _judged(url: str, submissions: Iterable[Known], at_once: int) -> Tally:
    """Have each submission judged, so many under way at once."""
    tally, left = Tally(), iter(submissions)
    connector = aiohttp.TCPConnector(limit=0)
    timeout = aiohttp.ClientTimeout(total=LONGEST)
    async with aiohttp.ClientSession(connector=connector, timeout=timeout) as session:

        async def client() -> None:
            for known in left:
                await _insist(session, url, known, tally)

        async with asyncio.timeout(LONGEST * 20), asyncio.TaskGroup() as group:
            for _ in range(at_once):
                group.create_task(client())
    return tally


async def _insist(session: aiohttp.ClientSession, url: str, known: Known, tally: Tally) -> None:
    while True:
        async with session.post(f"{url}/v1/execute", data=known.body) as reply:
            if reply.status == _BUSY:
                tally.refused += 1
            else:
                assert reply.status == 200, await reply.text()
                return tally.count(known, await reply.json())
        await asyncio.sleep(PAUSE)


def soak(folder: Path) -> list[Row]:
    """Untidy programs, 20,000 runs of them, and what is left afterwards."""
    programs = sandbox_programs.untidy()
    scratch = folder / "scratch"
    scratch.mkdir()
    with serving(folder, "--slots", str(SLOTS), env={"TMPDIR": str(scratch)}) as service:
        server = Server(service.process.pid, service.url)
        tally = asyncio.run(_judged(service.url, islice(programs, WARM_UP // TESTS), AT_ONCE))
        _have_all_slots(service.url, tally)
        before, memory = _held(server.pid, scratch), server.memory
        start = time.monotonic()
        more = asyncio.run(_judged(service.url, islice(programs, SOAK // TESTS), AT_ONCE))
        took = time.monotonic() - start
        _have_all_slots(service.url, more)
        after, growth = _held(server.pid, scratch), 100 * (server.memory / memory - 1)
    left = [f"{name}: {count - before[name]:+}" for name, count in after.items()]
    changed = [name for name in after if after[name] != before[name]]
    wrong = [*tally.slow, *tally.wrong, *more.slow, *more.wrong]
    return [
        Row(f"soak of {SOAK:,} runs ({took:.0f} s): left over", ", ".join(left), "0", not changed),
        _none("the same: wrong verdicts", wrong),
        measured(f"the same: growth of memory, % (of {memory >> 20} MiB)", Spread([growth]),
                 "<= 10"),
    ]  # fmt: skip


def _have_all_slots(url: str, tally: Tally) -> None:
    """Have each slot run something: one that was given up comes back only with its next run."""
    plain = [Known(body, "OK") for body in sandbox_programs.sums(AT_ONCE, TESTS)]
    found = asyncio.run(_judged(url, plain, AT_ONCE))
    tally.slow += found.slow
    tally.wrong += found.wrong


def _held(pid: int, scratch: Path) -> Counter[str]:
    """What a service holds of the machine; `scratch` is where it puts temporary files."""
    below = descendants(pid)
    parents = cgroup.find_parents()
    directories = [] if parents is None else parents.directories.values()
    return Counter({
        "processes": len(below),
        "descriptors": len(os.listdir(f"/proc/{pid}/fd")),
        "mounts": len(Path(f"/proc/{pid}/mountinfo").read_text().splitlines()),
        "control groups": sum(len(list(one.glob(f"*-{pid}-*"))) for one in directories),
        "temporary files": len(os.listdir(scratch)),
    })  # fmt: skip
