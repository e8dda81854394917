"""The reward service against its bars: ratios to peers, all taken in one run on one machine.

`python -m tests.bench.rewards` prints the table and writes it into docs/benchmarks.md. Exit code 1
if a bar is missed.
"""

import argparse
import os
import platform
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ProcessPoolExecutor
from datetime import UTC, datetime
from multiprocessing import get_context
from pathlib import Path
from textwrap import fill

from rewards.schema import Item, Request
from tests.bench import math_verify, mix, servers
from tests.bench.figures import Row, Spread, measured, table
from tests.bench.load import Measured, load
from tests.bench.page import write_section
from tests.bench.steadiness import memory, sameness

PAGE = Path(__file__).resolve().parents[2] / "docs/benchmarks.md"
ROUNDS = 5
SECONDS = 1.5
ITEMS = 240
"""Of a math round: two to four seconds of Math-Verify. The service gets `MORE` times as many."""

MORE = 8

BATCH = 64
PATH = "/v1/score"


def bodies(items: Sequence[Item]) -> list[bytes]:
    """One request for each item."""
    return [item.model_dump_json(exclude_defaults=True).encode() for item in items]


def batches(items: Sequence[Item]) -> list[bytes]:
    """Requests of `BATCH` items."""
    return [
        Request(items=list(items[at : at + BATCH])).model_dump_json(exclude_defaults=True).encode()
        for at in range(0, len(items), BATCH)
    ]


def exact_match(folder: Path) -> list[Row]:
    """The answer verifier against a trivial exact match."""
    ours: list[Measured] = []
    theirs: list[Measured] = []
    many: list[float] = []
    cpu: list[float] = []
    with servers.peer(folder, "exact") as peer, servers.rewards(folder, "answer", 1) as service:
        for seed in range(ROUNDS):
            items = mix.answers(seed, 20_000)
            used = peer.cpu
            theirs.append(load(peer.url + PATH, bodies(items), folder, seconds=SECONDS))
            each = (peer.cpu - used) / theirs[-1].requests
            used = service.cpu
            ours.append(load(service.url + PATH, bodies(items), folder, seconds=SECONDS))
            cpu.append((service.cpu - used) / ours[-1].requests / each)
            full = load(service.url + PATH, batches(items), folder, connections=8, seconds=SECONDS)
            many.append(BATCH * full.rate)
    _expect_good(ours + theirs)
    single, peers = Spread([m.rate for m in ours]), Spread([m.rate for m in theirs])
    last, its = Spread([m.p99 for m in ours]), Spread([m.p99 for m in theirs])
    return [
        measured("trivial exact match (FastAPI, pydantic, uvloop, httptools), requests/s", peers),
        measured("its p99, ms", its),
        measured("`answer`, requests/s", single),
        measured("`answer`, requests/s, of the trivial one's", single / peers, ">= 2"),
        measured("`answer`, p99, of the trivial one's", last / its, "<= 1"),
        measured("`answer`, CPU a request, of the trivial one's", Spread(cpu)),
        measured(f"`answer`, items/s in batches of {BATCH}", Spread(many)),
        measured("the same, of the trivial one's requests/s", Spread(many) / peers, ">= 10"),
    ]  # fmt: skip


def mathematics(folder: Path, workers: int) -> list[Row]:
    """The math verifier against Math-Verify in one process, and a naive pool of processes."""
    names = ("alone", "mixed", "endless", "naive", "alone, numbers", "numbers", "numbers, batched")
    rates: dict[str, list[float]] = {name: [] for name in names}
    with (
        ProcessPoolExecutor(1, get_context("spawn")) as alone,
        servers.rewards(folder, "math", workers) as service,
        servers.peer(folder, "pool", workers) as naive,
    ):
        _warm(alone, service.url, naive.url, folder)
        for seed in range(ROUNDS):
            mixed, numbers = mix.mixed(seed, ITEMS), mix.numbers(seed, ITEMS)
            rates["alone"].append(_alone(alone, mixed))
            more = bodies(mix.mixed(50 + seed, MORE * ITEMS))
            rates["mixed"].append(_served(service.url, more, folder))
            rates["naive"].append(_served(naive.url, bodies(mixed), folder))
            hard = mix.pathological(100 + seed, MORE * ITEMS)
            rates["endless"].append(_served(service.url, bodies(hard), folder))
            rates["alone, numbers"].append(_alone(alone, numbers))
            plain = mix.numbers(200 + seed, MORE * ITEMS)
            rates["numbers"].append(_served(service.url, bodies(plain), folder))
            full = batches(mix.numbers(300 + seed, 4 * MORE * ITEMS))
            rates["numbers, batched"].append(BATCH * _served(service.url, full, folder))
        stuck = _served(naive.url, bodies(mix.pathological(99, ITEMS // 2)), folder)
    found = {name: Spread(values) for name, values in rates.items()}
    return _math_rows(found, stuck, workers)


def _math_rows(found: dict[str, Spread], stuck: float, workers: int) -> list[Row]:
    scaled = Spread([workers * value for value in found["alone"].values])
    number = found["alone, numbers"]
    naive = found["naive"]
    return [
        measured("Math-Verify in one process, items/s of a mix", found["alone"]),
        measured(f"`math`, {workers} worker(s), items/s of the mix", found["mixed"]),
        measured("the same, of workers x Math-Verify", found["mixed"] / scaled, ">= 0.9"),
        measured("a naive process pool, of workers x Math-Verify", naive / scaled),
        measured("integers and decimals, of Math-Verify", found["numbers"] / number, ">= 5"),
        measured(f"the same in batches of {BATCH}", found["numbers, batched"] / number),
        measured("5 % endless items, of the clean rate", found["endless"] / found["mixed"],
                 ">= 0.6"),
        measured("the same in the naive pool", Spread([stuck / naive.middle])),
    ]  # fmt: skip


def _warm(alone: ProcessPoolExecutor, service: str, naive: str, folder: Path) -> None:
    first = mix.mixed(1000, 60)
    _alone(alone, first)
    _served(service, bodies(first), folder)
    _served(naive, bodies(first), folder)


def _alone(process: ProcessPoolExecutor, items: Sequence[Item]) -> float:
    pairs = [(str(item.gold), str(item.response)) for item in items]
    return len(items) / process.submit(math_verify.seconds, pairs).result(timeout=300)


def _served(url: str, requests: Sequence[bytes], folder: Path) -> float:
    """Requests a second, each sent once."""
    found = load(url + PATH, requests, folder)
    _expect_good([found])
    return found.rate


def _expect_good(found: Sequence[Measured]) -> None:
    refused = sum(each.refused for each in found)
    assert not refused, f"{refused} requests were not answered with 200"


def section(rows: Sequence[Row], took: float) -> str:
    """The text for the page."""
    where = f"{os.cpu_count()} cores ({platform.machine()}), Python {platform.python_version()}"
    text = (
        f"`make bench-rewards`, {datetime.now(UTC):%d %B %Y}, {where}, {took:.0f} s. Medians of "
        f"{ROUNDS} interleaved rounds with their range; ratios are taken round by round; 64 "
        "connections (8 for batches of answers); load and servers share the cores. No item comes "
        "twice."
    )
    return f"{fill(text, 100)}\n\n{table(rows)}"


def main(arguments: Sequence[str] | None = None) -> int:
    """Measure, print and write; returns the exit code."""
    parser = argparse.ArgumentParser(prog="python -m tests.bench.rewards")
    parser.add_argument("--workers", type=int, default=os.cpu_count() or 1)
    parser.add_argument("--page", type=Path, default=PAGE, help="where to write the section")
    options = parser.parse_args(arguments)
    start = time.monotonic()
    rows: list[Row] = []
    parts: list[Callable[[Path], list[Row]]] = [
        exact_match, lambda folder: mathematics(folder, options.workers), sameness, memory,
    ]  # fmt: skip
    with tempfile.TemporaryDirectory() as folder:
        for part in parts:
            rows += part(Path(folder))
    text = section(rows, time.monotonic() - start)
    print(text)
    write_section(options.page, "bench-rewards", text)
    missed = [row for row in rows if not row.reached]
    for row in missed:
        print(f"missed: {row.what}: {row.figure}, wanted {row.bar}", file=sys.stderr)
    return int(bool(missed))


if __name__ == "__main__":
    sys.exit(main())
