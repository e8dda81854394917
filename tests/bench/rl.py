"""Asynchronous RL against verl's synchronous trainer on the same two cores.

`python -m tests.bench.rl` runs what is not yet in its folder, prints the table and writes it into
docs/benchmarks.md; a run killed half-way is run again. Exit code 1 if a bar is missed.
"""

import argparse
import json
import os
import platform
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict
from datetime import UTC, datetime
from pathlib import Path
from statistics import fmean
from textwrap import fill
from typing import Any

from posttrain.recipe.schema import RewardService
from posttrain.services import Rewards
from posttrain.store import Store
from tests.bench.figures import Row, Spread, measured, table
from tests.bench.page import write_section
from tests.bench.rl_ceiling import simulated
from tests.bench.rl_run import WITHIN, Spec

ROOT = Path(__file__).resolve().parents[2]
PAGE = ROOT / "docs/benchmarks.md"
STEPS, PROMPTS, GROUP = 40, 4, 8
TAIL = (16.0, 1.0, 128)
PLACES = 32
CHECKPOINT, DATA = "quickstart/long@1", "quickstart/sums@1"
SANDBOX = 0.0123
"""Seconds of CPU for a numpy program in the warm sandbox: its latency where nothing waits."""

LATENCIES = {0.0: (1,), SANDBOX: (1, 2, 3), 0.3: (1,)}
"""Seconds a verdict takes -> seeds."""

MODES = (("in-turn", 0), ("streamed", 0), ("async", 1), ("async", 2), ("async", 4))


def specs(store: Path, rewards: str) -> Iterator[Spec]:
    """All runs, those of one latency and seed after one another."""
    for latency, seeds in LATENCIES.items():
        for seed in seeds:
            for mode, staleness in MODES:
                yield Spec(
                    mode=mode, staleness=staleness, latency=latency, seed=seed, steps=STEPS,
                    prompts_per_step=PROMPTS, group=GROUP, places=PLACES, tail=TAIL,
                    store=str(store), checkpoint=CHECKPOINT, data=DATA,
                    rewards=rewards,
                )  # fmt: skip


def prepare(folder: Path) -> Path:
    """The store with the checkpoint that all runs start from."""
    store = folder / "store"
    command = [sys.executable, "-m", "posttrain", "run", "recipes/quickstart.yaml"]
    subprocess.run(
        [*command, "--until", "long", "--store", str(store)], cwd=ROOT, check=True, timeout=1800
    )
    return store


@contextmanager
def rewards(store: Path) -> Iterator[str]:
    """URL of a reward service for all runs."""
    service = Rewards(RewardService(verifiers=("answer",)), Store(store), "bench")
    (store / "runs/bench/logs").mkdir(parents=True, exist_ok=True)
    service.start()
    try:
        service.await_ready()
        yield service.url
    finally:
        service.stop()


def result(spec: Spec, folder: Path) -> Mapping[str, Any]:
    """What the run found, from its file if that is of the same run; services may lie elsewhere."""
    target = folder / f"{spec.name}.json"
    if not target.exists() or not _same(json.loads(target.read_text())["spec"], spec):
        given = folder / "spec.json"
        given.write_text(json.dumps(asdict(spec)))
        print(f"{spec.name} …", flush=True)
        part = target.with_suffix(".part")
        with (folder / f"{spec.name}.log").open("w") as log:
            subprocess.run(
                [sys.executable, "-m", "tests.bench.rl_run", given, part], cwd=ROOT, check=True,
                stdout=log, stderr=log, timeout=WITHIN + 120,
            )  # fmt: skip
        part.rename(target)
    found: Mapping[str, Any] = json.loads(target.read_text())
    return found


def _same(told: Mapping[str, Any], spec: Spec) -> bool:
    """Whether both are one run, wherever its store and reward service are."""
    wanted = json.loads(json.dumps(asdict(spec)))
    return all(told[name] == wanted[name] for name in wanted.keys() - {"store", "rewards"})


def decoding(store: Path, folder: Path) -> Mapping[str, float]:
    """Seconds a token by sequences decoded together."""
    target = folder / "decode.json"
    if not target.exists():
        model = Store(store).get(CHECKPOINT).path / "model"
        command = [sys.executable, "-m", "tests.bench.rl_decode", str(model), str(target)]
        with (folder / "decode.log").open("w") as log:
            subprocess.run(command, cwd=ROOT, check=True, stdout=log, stderr=log, timeout=WITHIN)
    found: Mapping[str, float] = json.loads(target.read_text())
    return found


def rate(found: Mapping[str, Any]) -> float:
    """Trained samples a second, the first step and what led to it left out."""
    steps: list[Mapping[str, float]] = found["steps"][1:]
    return len(steps) * PROMPTS * GROUP / sum(step["seconds"] for step in steps)


def rows(
    found: Mapping[tuple[str, int, float], Sequence[Mapping[str, Any]]], decode: Mapping[str, float]
) -> list[Row]:
    """The table: for each latency each mode, then the ratios that have bars."""
    told: list[Row] = []
    for latency in LATENCIES:
        rates = {mode: Spread([rate(each) for each in found[*mode, latency]]) for mode in MODES}
        told += [_row(mode, latency, rates[mode], found[*mode, latency]) for mode in MODES]
        best = max((rates[mode] for mode in MODES[:2]), key=lambda spread: spread.middle)
        for mode in MODES[2:]:
            runs, name = found[*mode, latency], _name(mode, latency)
            bar = ">= 1.5" if latency == 0.3 and mode == ("async", 1) else ""
            told.append(measured(f"{name}, of the better baseline", rates[mode] / best, bar))
            ceilings = Spread([simulated(each, decode).ceiling for each in runs])
            told.append(measured(f"{name}, of its ceiling", rates[mode] / ceilings, ">= 0.85"))
    return told


def _name(mode: tuple[str, int], latency: float) -> str:
    told = f"async, staleness {mode[1]}" if mode[0] == "async" else f"synchronous, {mode[0]}"
    return f"{1000 * latency:.0f} ms: {told}"


def _row(
    mode: tuple[str, int], latency: float, rates: Spread, runs: Sequence[Mapping[str, Any]]
) -> Row:
    steps = [step for each in runs for step in each["steps"][1:]]
    waiting = fmean(step["seconds_waiting"] for step in steps) / fmean(
        step["seconds"] for step in steps
    )
    sync = fmean(step["seconds_sync"] for step in steps)
    accuracy = Spread([each["steps"][-1]["accuracy"] for each in runs])
    figure = (
        f"{rates} samples/s; trainer waits {waiting:.0%}, sync {sync:.2f} s, "
        f"accuracy {accuracy.middle:.3f}"
    )
    return Row(_name(mode, latency), figure)


def page(told: list[Row]) -> str:
    """The section of docs/benchmarks.md."""
    today = datetime.now(UTC)
    text = (
        f"`make bench-async`, {today.day} {today:%B %Y}, {os.cpu_count()} cores "
        f"({platform.machine()}), Python {platform.python_version()}. {STEPS} steps of {PROMPTS} "
        f"prompts with {GROUP} responses from the quickstart's long-context checkpoint; to each "
        f"answer a tail of tokens is decoded (lognormal, median {TAIL[0]:.0f}, sigma {TAIL[1]:g}, "
        f"at most {TAIL[2]}); {PLACES} verdicts at a time. The synchronous trainer is verl's own "
        "on both cores, two ranks with a rollout server each, groups of equal rewards left out in "
        "all rows, every row polls at 50 ms. In turn: verdicts begin when all is generated."
    )
    return f"{fill(text, 100)}\n\n{table(told)}"


def main() -> int:
    """Run what is missing, then tell."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--folder", type=Path, default=_cache())
    folder: Path = parser.parse_args().folder
    folder.mkdir(parents=True, exist_ok=True)
    store = prepare(folder)
    found: dict[tuple[str, int, float], list[Mapping[str, Any]]] = {}
    with rewards(store) as url:
        for spec in specs(store, url):
            runs = found.setdefault((spec.mode, spec.staleness, spec.latency), [])
            runs.append(result(spec, folder))
    told = rows(found, decoding(store, folder))
    print(page(told))
    write_section(PAGE, "bench-async", page(told))
    return 0 if all(row.reached for row in told) else 1


def _cache() -> Path:
    base = os.environ.get("XDG_CACHE_HOME", Path.home() / ".cache")
    return Path(base) / "posttrain/bench-async"


if __name__ == "__main__":
    sys.exit(main())
