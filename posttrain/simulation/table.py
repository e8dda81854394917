"""A row for each rule, below those of the synchronous baselines: as plain values and as a table."""

from collections.abc import Callable, Iterator
from dataclasses import asdict
from functools import partial
from typing import Any

from rich.table import Table

from posttrain.simulation.outcome import Outcome, simulate, simulate_synchronous
from posttrain.simulation.settings import Settings
from posttrain.simulation.sizing import best_split, replicas_needed

Rows = list[dict[str, Any]]


def rows(settings: Settings, sizing: bool = True) -> Rows:
    """Simulate everything there is to compare: `Outcome`'s fields and ratios; with `sizing` also
    `reward_replicas_needed` and `best_split` (trainer, rollout), which take most of the time."""
    runs = list(_runs(settings))
    found = [asdict(run(settings)) for run in runs]
    plain, streamed = (row["samples_per_second"] for row in found[:2])
    for row in found:
        rate = row["samples_per_second"]
        row["against_synchronous"] = rate / plain
        row["against_streamed"] = rate / streamed
        row["of_ceiling"] = rate / row["ceiling"]
    if sizing:
        for row, run, rule in zip(found, runs, [None, None, *settings.rules], strict=True):
            row["reward_replicas_needed"] = replicas_needed(settings, run)
            row["best_split"] = best_split(settings, rule) if rule else None
    return found


def _runs(settings: Settings) -> Iterator[Callable[[Settings], Outcome]]:
    yield partial(simulate_synchronous, streamed=False)
    yield partial(simulate_synchronous, streamed=True)
    for rule in settings.rules:
        yield partial(simulate, rule=rule)


COLUMNS = (
    "rule", "samples/s", "s/step", "x sync", "x streamed", "of ceiling", "age p50/p99/max", "bound",
    "idle: rollout", "trainer", "reward", "dropped", "replicas needed", "best split",
)  # fmt: skip


def table(found: Rows, settings: Settings) -> Table:
    """The same to look at."""
    split = f"{settings.trainer.accelerators}:{settings.rollout.accelerators}"
    title = f"{settings.steps} steps, trainer:rollout {split}"
    shown = Table(title=title, title_justify="left")
    for column in COLUMNS:
        shown.add_column(column, justify="left" if column == "rule" else "right")
    for row in found:
        shown.add_row(*_cells(row))
    return shown


def _cells(row: dict[str, Any]) -> Iterator[str]:
    ages, bound, split = row["ages"], row["bound"], row.get("best_split")
    yield row["rule"]
    yield f"{row['samples_per_second']:.4g}"
    yield f"{row['step_seconds']:.4g}"
    yield f"{row['against_synchronous']:.2f}"
    yield f"{row['against_streamed']:.2f}"
    yield f"{row['of_ceiling']:.2f}"
    yield f"{ages['p50']}/{ages['p99']}/{ages['most']}"
    yield "none" if bound is None else str(bound)
    yield f"{row['rollout_idle']:.0%}"
    yield f"{row['trainer_idle']:.0%}"
    yield "-" if row["reward_idle"] is None else f"{row['reward_idle']:.0%}"
    yield f"{row['dropped']:.1%}"
    yield str(row.get("reward_replicas_needed", "-"))
    yield "-" if split is None else f"{split[0]}:{split[1]}"
