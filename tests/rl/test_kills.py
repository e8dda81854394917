"""kill -9 at named points of verl's own training loop: nothing is lost, nothing trained twice.

The weights of these runs are the list of prompts they were trained on, so that after any number of
crashes they can be compared with what the ledger says, and that with the order of prompts.
"""

import multiprocessing
import random
import signal
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from posttrain.rl.config import RlConfig
from tests.rl import world

KILLS = 200

LINES = ("begun", "issued", "generating", "generated", "scored", "trained", "filtered", "dropped",
         "checkpoint", "resumed", "reissued")  # fmt: skip
PASSED = ("draw", "submit", "reissue", "saving weights", "saving the queue", "loading the queue",
          "fsync", "removing a checkpoint", "rename", "update", "recover", "report", "sampling",
          "materialize", "reading a prompt", "putting prompts", "clearing prompts")  # fmt: skip
POINTS = (
    *(f"{when} line {event}" for event in LINES for when in ("before", "within", "after")),
    *(f"{when} {point}" for point in PASSED for when in ("before", "after")),
    "before a group", "in a group", "after a group",
)  # fmt: skip

OFTEN = {"issued": 20, "generating": 30, "generated": 60, "scored": 60, "draw": 20, "group": 40}
"""Points that are passed many times: at most so often before the kill."""

FRESH = tuple(f"{when} line begun" for when in ("before", "within", "after"))
"""Points that only a run's first attempt passes."""

SOURCES = ["a"] * 20 + ["b"] * 10

RULES: tuple[dict[str, Any], ...] = (
    {"rule": "drop"}, {"rule": "wait", "staleness": 2}, {"rule": "windowed", "window": 4},
)  # fmt: skip


def _survives(root: Path, config: RlConfig, settings: Any, point: str, hits: int) -> bool:
    """Whether an attempt, in a process of its own, came to its end rather than to the point."""
    killer = world.Killer(point, hits)
    context = multiprocessing.get_context("fork")
    process = context.Process(target=world.attempt, args=(root, config, settings, killer))
    process.start()
    process.join(60)
    assert process.exitcode in (0, -signal.SIGKILL), f"{point}: ended with {process.exitcode}"
    return process.exitcode == 0


def _kill_at(
    root: Path, points: list[str], config: RlConfig, settings: Any, draw: random.Random
) -> int:
    """Kill at each of the points, of one run after another; how many runs that took."""
    runs = 0
    world.begin(root / "0", SOURCES)
    for point in points:
        for _ in range(30):
            if point in FRESH and (root / str(runs) / "ledger.jsonl").exists():
                runs += 1
                world.begin(root / str(runs), SOURCES)
            hits = draw.randint(1, OFTEN.get(point.split()[-1], 2))
            if not _survives(root / str(runs), config, settings, point, hits):
                break
            world.check(root / str(runs), config, SOURCES)
            runs += 1
            world.begin(root / str(runs), SOURCES)
            # Some points are passed only where there is a checkpoint to resume from.
            assert not _survives(root / str(runs), config, settings, "after report", 3)
        else:
            raise AssertionError(f"{point} was never passed")
    assert _survives(root / str(runs), config, settings, "none", 1)
    assert world.check(root / str(runs), config, SOURCES).step == config.steps
    return runs + 1


def _kill_under(rule: int, folder: Path) -> int:
    """Kill once at every point under a rule; how many runs that took."""
    config = world.config_of(**RULES[rule])
    draw = random.Random(rule)
    root = folder / f"rule{rule}"
    root.mkdir()
    settings = world.settings_of(config, world.place_in(root))
    return _kill_at(root, draw.sample(POINTS, len(POINTS)), config, settings, draw)


@pytest.mark.timeout(900)
def test_after_any_kills_ledger_weights_and_order_agree(tmp_path: Path) -> None:
    assert len(POINTS) * len(RULES) >= KILLS
    with ProcessPoolExecutor(2, multiprocessing.get_context("fork")) as pool:
        runs = list(pool.map(_kill_under, range(len(RULES)), [tmp_path] * len(RULES)))
    assert all(count >= 2 for count in runs)
