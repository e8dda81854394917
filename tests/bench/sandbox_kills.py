"""SIGKILL at random under load: of a slot's own processes, and of the service as a whole.

A program is never the victim: what kills it from outside cannot be told from its own doing.
"""

import asyncio
import os
import random
import signal
import time
from collections.abc import Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from itertools import cycle
from pathlib import Path

import aiohttp

from tests.bench import sandbox_programs
from tests.bench.figures import Row, Spread, measured
from tests.bench.sandbox_programs import Known
from tests.rewards.service import alive, descendants
from tests.sandbox.service import Service, serving

SLOTS = 2
KILLS = 40
PAUSE = 0.5
GONE_WITHIN = 1.0
_NESTED = 3
"""Levels of process namespaces that a program is in: the machine's, its slot's, its own."""


@dataclass
class Tally:
    """What was judged meanwhile; `hit` are the seconds of replies during which a kill came."""

    verdicts: int = 0
    faults: int = 0
    wrong: list[str] = field(default_factory=list)
    hit: list[float] = field(default_factory=list)


@dataclass
class _Scene:
    service: Service
    tally: Tally = field(default_factory=Tally)
    killed: list[float] = field(default_factory=list)
    over: bool = False

    def judged(self, known: Known, verdict: str, start: float, end: float) -> None:
        self.tally.verdicts += 1
        if verdict == "IE":
            self.tally.faults += 1
        elif verdict != known.verdict:
            self.tally.wrong.append(f"{known.verdict} was judged {verdict}")
        self.tally.hit += [end - at for at in self.killed if start < at < end][:1]


def kills(folder: Path) -> list[Row]:
    """Verdicts and delays under random kills; then what a killed service leaves."""
    with serving(folder, "--slots", str(SLOTS)) as service:
        tally = asyncio.run(_strained(service, KILLS))
        left = _left_by_killed(service)
    what = f"SIGKILL of a slot's processes under load, {KILLS} times"
    return [
        Row(f"{what}: wrong verdicts of {tally.verdicts:,}",
            "; ".join([str(len(tally.wrong)), *tally.wrong[:3]]), "0", not tally.wrong),
        Row(f"{what}: IE", str(tally.faults), f"<= {KILLS}", tally.faults <= KILLS),
        measured(f"{what}: from a kill to the verdict it delays, ms",
                 Spread([1000 * one for one in tally.hit]), "<= 1000"),
        Row(f"SIGKILL of the service under load: processes left after {GONE_WITHIN:g} s",
            str(left), "0", left == 0),
    ]  # fmt: skip


async def _strained(service: Service, times: int) -> Tally:
    """Each slot is kept busy while, so many times, one of them is hit."""
    scene = _Scene(service)
    async with aiohttp.ClientSession() as session, asyncio.TaskGroup() as group:
        for number in range(SLOTS):
            group.create_task(_client(session, scene, _programs(number)))
        await _killer(scene, times)
        scene.over = True
    return scene.tally


def _programs(number: int) -> Iterator[Known]:
    known = sandbox_programs.near_their_limits(100)
    return cycle(known[number::SLOTS][:35])


async def _client(session: aiohttp.ClientSession, scene: _Scene, programs: Iterable[Known]) -> None:
    for known in programs:
        if scene.over:
            return
        start = time.monotonic()
        url = f"{scene.service.url}/v1/execute"
        async with session.post(url, data=sandbox_programs.renamed(known)) as reply:
            assert reply.status == 200, await reply.text()
            verdict = (await reply.json())["verdict"]
        scene.judged(known, verdict, start, time.monotonic())


async def _killer(scene: _Scene, times: int) -> None:
    choose = random.Random(0)
    for _ in range(times):
        await asyncio.sleep(PAUSE)
        victims = sorted(filter(_is_a_slots, descendants(scene.service.process.pid)))
        with suppress(ProcessLookupError):  # Replaced just now.
            os.kill(choose.choice(victims), signal.SIGKILL)
            scene.killed.append(time.monotonic())


def _is_a_slots(pid: int) -> bool:
    """Whether it is bubblewrap, a supervisor, an interpreter or the first of a namespace."""
    try:
        lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    except OSError:
        return False
    numbers = next(line.split()[1:] for line in lines if line.startswith("NSpid:"))
    return len(numbers) < _NESTED or numbers[-1] == "1"


def _left_by_killed(service: Service) -> int:
    """Kill the service while programs run; how many of its processes are left a little later."""

    async def under_load() -> int:
        scene = _Scene(service)
        async with aiohttp.ClientSession() as session:
            clients = [
                asyncio.ensure_future(_client(session, scene, _programs(number)))
                for number in range(SLOTS)
            ]
            await asyncio.sleep(PAUSE)
            below = descendants(service.process.pid)
            service.process.kill()
            await asyncio.wait(clients)
            await asyncio.sleep(GONE_WITHIN)
            for client in clients:
                assert isinstance(client.exception(), aiohttp.ClientError)
        return len(alive(below))

    return asyncio.run(under_load())
