"""The sandbox against its bars and against fresh processes, all in one run on one machine.

`python -m tests.bench.sandbox` prints the table and writes it into docs/benchmarks.md; `--soak`
adds 20,000 runs of untidy programs. Exit code 1 if a bar is missed.
"""

import argparse
import asyncio
import os
import platform
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from textwrap import fill

import docker

from sandbox.tiers import NotOffered, Program, Slot
from sandbox.tiers import docker as docker_tier
from sandbox.tiers.docker import LABEL, Docker
from sandbox.tiers.namespaces import Namespaces, Settings
from tests.bench import sandbox_baselines, sandbox_programs
from tests.bench.figures import Row, Spread, measured, table
from tests.bench.load import Measured, load
from tests.bench.page import write_section
from tests.bench.sandbox_kills import kills
from tests.bench.sandbox_strain import overload, soak
from tests.bench.servers import Server
from tests.rewards.service import descendants
from tests.sandbox.service import serving

PAGE = Path(__file__).resolve().parents[2] / "docs/benchmarks.md"
SECTION = "bench-sandbox"
ROUNDS, HTTP_ROUNDS = 9, 5
FRESH = {"a fresh process": "process", "a fresh bubblewrap": "bubblewrap"}
TIER, CONTAINER = "the `namespaces` tier", "the `docker` tier, warm"
FRESH_RUNS = {"hello": 12, "numpy": 4}
RUNS = 60
"""Executions of a round: enough for the clock of processes, which ticks 100 times a second."""

LASTING = 10**6
"""Runs until a slot is renewed: what an ended process has used is no longer to be seen."""

BARS = {"hello": ("<= 14", ">= 1.4"), "numpy": ("<= 15", ">= 8")}
REQUESTS = {5: 36, 1: 130}
"""Of a round, by the number of tests in each; too few in all for a slot to be renewed."""

RATES = {5: 5000, 1: 3500}
SLOTS = 2
CONNECTIONS = 16
PATH = "/v1/execute"


def executions(folder: Path) -> list[Row]:
    """CPU time of one execution, slot and caller together, against fresh processes."""
    costs = asyncio.run(_costs(folder))
    rows = []
    for name, (bar, factor) in BARS.items():
        bars = {TIER: bar, CONTAINER: "<= 12"}
        for way in (*FRESH, TIER):
            rows.append(measured(f"{name}: CPU ms in {way}", costs[way, name], bars.get(way, "")))
        ratio = costs["a fresh process", name] / costs[TIER, name]
        rows.append(measured(f"{name}: a fresh process's, of the tier's", ratio, factor))
        what = f"{name}: CPU ms in {CONTAINER}"
        if (CONTAINER, name) in costs:
            rows.append(measured(what, costs[CONTAINER, name], bars[CONTAINER]))
        else:
            rows.append(Row(what, "not measured: no Docker daemon, or its image lacks it"))
    return rows


async def _costs(folder: Path) -> dict[tuple[str, str], Spread]:
    """CPU ms by way and program; ways take turns, so that what slows one slows all."""
    slot = await Namespaces(Settings(recycle_after=LASTING)).slot()
    container = await _container()
    slots = [(TIER, slot, _clock())]
    if container is not None:
        slots.append((CONTAINER, container, _container_clock()))
    found: dict[tuple[str, str], list[float]] = {}
    try:
        for _ in range(ROUNDS):
            for name, runs in FRESH_RUNS.items():
                for way, kind in FRESH.items():
                    fresh = sandbox_baselines.cost(kind, name, runs, folder)
                    found.setdefault((way, name), []).append(fresh)
                for way, one, clock in slots:
                    if not await _runs(one, name):
                        continue
                    found.setdefault((way, name), []).append(await _cost(one, name, clock))
    finally:
        await slot.close()
        if container is not None:
            await container.close()
    return {key: Spread(values) for key, values in found.items()}


def _program(name: str) -> Program:
    return Program(("python", "main.py"), {"main.py": sandbox_programs.PROGRAMS[name].encode()})


async def _runs(slot: Slot, name: str) -> bool:
    """Whether its interpreter has what the program imports; an image may lack it."""
    return (await slot.run(_program(name))).exit_code == 0


async def _cost(slot: Slot, name: str, clock: Callable[[], float]) -> float:
    """CPU ms of one of several executions, each with the right output."""
    program = _program(name)
    before = clock()
    for _ in range(RUNS):
        printed = (await slot.run(program)).stdout
        assert printed.decode() == sandbox_programs.OUTPUTS[name], printed
    return 1000 * (clock() - before) / RUNS


def _clock() -> Callable[[], float]:
    """CPU seconds of this process and of those below it now, with their ended children."""
    pids = [os.getpid(), *descendants(os.getpid())]
    ticks = os.sysconf("SC_CLK_TCK")

    def clock() -> float:
        stats = (Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2] for pid in pids)
        return sum(sum(map(int, stat.split()[11:15])) for stat in stats) / ticks

    return clock


async def _container() -> Slot | None:
    try:
        return await Docker(docker_tier.Settings(recycle_after=LASTING)).slot()
    except NotOffered:
        return None


def _container_clock() -> Callable[[], float]:
    """CPU seconds of this process and, by its container's own counter, of a slot."""
    found = docker.from_env().containers.list(filters={"label": LABEL})
    (container,) = [one for one in found if one.labels[LABEL].startswith(f"{os.getpid()}-")]

    def clock() -> float:
        used = container.stats(stream=False, one_shot=True)["cpu_stats"]["cpu_usage"]
        return float(used["total_usage"] / 1e9 + time.process_time())

    return clock


def throughput(folder: Path) -> list[Row]:
    """Executions a minute over HTTP, and what each costs the service and its slots."""
    rates: dict[int, list[float]] = {tests: [] for tests in REQUESTS}
    costs: dict[int, list[float]] = {tests: [] for tests in REQUESTS}
    last: dict[int, list[float]] = {tests: [] for tests in REQUESTS}
    with _served(folder) as server:
        _loaded(server, folder, 1)
        for _ in range(HTTP_ROUNDS):
            for tests in REQUESTS:
                used = server.cpu
                found = _loaded(server, folder, tests)
                rates[tests].append(60 * tests * found.rate)
                costs[tests].append(1000 * (server.cpu - used) / (tests * found.requests))
                last[tests].append(found.p99)
    rows = []
    for tests, bar in RATES.items():
        label = f"HTTP, {tests} test{'s' if tests > 1 else ''} a request"
        rows += [
            measured(f"{label}: executions/min", Spread(rates[tests]), f">= {bar}"),
            measured(f"{label}: CPU ms an execution, service and slots", Spread(costs[tests])),
            measured(f"{label}: p99 of a request, ms", Spread(last[tests])),
        ]
    return rows


@contextmanager
def _served(folder: Path) -> Iterator[Server]:
    with serving(folder, "--slots", str(SLOTS)) as service:
        yield Server(service.process.pid, service.url)


def _loaded(server: Server, folder: Path, tests: int) -> Measured:
    bodies = sandbox_programs.sums(REQUESTS[tests], tests)
    found = load(server.url + PATH, bodies, folder, connections=CONNECTIONS)
    assert not found.refused, f"{found.refused} requests were not answered with 200"
    return found


def section(rows: Sequence[Row], took: float) -> str:
    """The text for the page."""
    where = f"{os.cpu_count()} cores ({platform.machine()}), Python {platform.python_version()}"
    text = (
        f"`make bench-sandbox`, {datetime.now(UTC):%d %B %Y}, {where}, {took:.0f} s. Medians of "
        f"{ROUNDS} interleaved rounds ({HTTP_ROUNDS} over HTTP) with their range; ratios are taken "
        "round by round. CPU time is user and system time of all processes, the caller's too. "
        f"HTTP: {SLOTS} slots, {CONNECTIONS} connections; load and service share the cores, and "
        "each program reads and prints."
    )
    return f"{fill(text, 100)}\n\n{table(rows)}"


def main(arguments: Sequence[str] | None = None) -> int:
    """Measure, print and write; returns the exit code."""
    parser = argparse.ArgumentParser(prog="python -m tests.bench.sandbox")
    parser.add_argument("--soak", action="store_true", help="also 20,000 runs of untidy programs")
    parser.add_argument("--page", type=Path, default=PAGE, help="where to write the section")
    options = parser.parse_args(arguments)
    write_section(options.page, SECTION, "Being measured.")  # Told now if the page has no place.
    start = time.monotonic()
    rows: list[Row] = []
    for part in [executions, throughput, overload, kills, *[soak] * options.soak]:
        with tempfile.TemporaryDirectory(dir="/var/tmp") as folder:
            rows += part(Path(folder))
    text = section(rows, time.monotonic() - start)
    print(text)
    write_section(options.page, SECTION, text)
    missed = [row for row in rows if not row.reached]
    for row in missed:
        print(f"missed: {row.what}: {row.figure}, wanted {row.bar}", file=sys.stderr)
    return int(bool(missed))


if __name__ == "__main__":
    sys.exit(main())
