"""The `posttrain ledger` command: where a run's prompts went, or the life of one of them."""

import json
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.table import Table

from posttrain import names
from posttrain.rl.account import Account, Event, account, standing
from posttrain.rl.ledger import ARCHIVED, NAME, Events
from posttrain.store import Store

_WIDE = 10_000
"""Columns where no terminal shows the output: a line stays a line."""

_HIDDEN = ("n", "time", "event", "prompt", "prompts")


def ledger(
    run: Annotated[str, typer.Argument(metavar="RUN", help="a run of the store")],
    stage: Annotated[str, typer.Option(help="its RL stage")] = "rl",
    prompt: Annotated[int | None, typer.Option(min=0, help="show this prompt's life")] = None,
    machine: Annotated[bool, typer.Option("--json", help="print JSON")] = False,
    store: Annotated[
        Path, typer.Option("--store", envvar="POSTTRAIN_STORE", help="folder of the artifact store")
    ] = Path("store"),
) -> None:
    """Show what became of an RL stage's prompts: issued = trained + filtered + dropped + in flight.

    It works while the stage runs, too. RuntimeError if the totals do not balance.
    """
    path = _found(Store(store), names.checked(run), stage)
    events = Events(path)
    with Console(stderr=True).status(f"reading {path.stat().st_size / 1e6:.1f} MB"):
        if prompt is None:
            told = _totals(path, events)
        else:
            told = {"ledger": str(path), "prompt": prompt, "life": life(events, prompt)}
    if machine:
        sys.stdout.write(json.dumps(told, indent=1) + "\n")
    else:
        _print(told, run, stage)
    if fault := told.get("imbalance"):
        raise RuntimeError(f"{path} does not balance: {fault}")


def life(events: Iterable[Event], prompt: int) -> list[dict[str, Any]]:
    """The events of one prompt, in order; `void` are those before a resume that undid them.

    ValueError if there is no such prompt.
    """
    found = [
        {**{key: value for key, value in event.items() if key != "prompts"}, "void": not counts}
        for event, counts in standing(events)
        if event.get("prompt") == prompt or prompt in event.get("prompts", ())
    ]
    if not found:
        issued = len(account(events).prompts)
        raise ValueError(f"no prompt {prompt} in the ledger; it has 0 to {issued - 1}")
    return found


def _totals(path: Path, events: Iterable[Event]) -> dict[str, Any]:
    found = account(events)
    return {
        "ledger": str(path), "step": found.step, "checkpoint": found.checkpoint,
        "totals": found.totals(), "imbalance": found.imbalance(),
        "sources": {name: _of_source(found, name) for name in sorted(found.by_source)},
        "dropped_sources": found.dropped_sources,
        "attempts": sum(event["event"] in ("begun", "resumed") for event in events),
        "void": sum(not counts for _, counts in standing(events)),
    }  # fmt: skip


def _of_source(found: Account, source: str) -> dict[str, int]:
    states = {f"in_flight.{state}": count for state, count in found.in_flight(source).items()}
    return {**found.by_source[source], **states}


def _found(store: Store, run: str, stage: str) -> Path:
    """The ledger of a stage: that of its newest attempt if unfinished, else of its last artifact.

    ValueError if there is none.
    """
    working = store.root / "work" / run / stage / NAME
    if working.is_file():
        return working
    made = [found for found in store.artifacts(run) if found.record.stage == stage]
    paths = [found.path / ARCHIVED for found in made if (found.path / ARCHIVED).is_file()]
    if not paths:
        raise ValueError(
            f"stage {stage} of run {run} has no ledger in {store.root}; is it an RL stage, and has "
            "it been started?"
        )
    return paths[-1]


def _print(told: dict[str, Any], run: str, stage: str) -> None:
    console = Console(markup=False, emoji=False, highlight=False)
    if not console.is_terminal:
        console.width = _WIDE
    console.print(_life_table(told) if "life" in told else _totals_table(told, f"{run}/{stage}"))
    if "life" in told:
        return
    for source, why in told["dropped_sources"].items():
        console.print(f"source {source} was dropped: {why}")
    console.print(
        f"step {told['step']}, last checkpoint {told['checkpoint']}; attempts: {told['attempts']}, "
        f"events undone by resuming: {told['void']}"
    )
    console.print(f"next: posttrain ledger {run} --stage {stage} --prompt 0")


def _totals_table(told: dict[str, Any], title: str) -> Table:
    table = Table(title=f"prompts of {title}", title_justify="left")
    columns = {"all": told["totals"], **told["sources"]}
    table.add_column("")
    for name in columns:
        table.add_column(name, justify="right")
    for row in dict.fromkeys(key for column in columns.values() for key in column):
        table.add_row(
            row.replace("_", " ").replace(".", " "),
            *(str(each.get(row, "")) for each in columns.values()),
        )
    return table


def _life_table(told: dict[str, Any]) -> Table:
    table = Table(title=f"life of prompt {told['prompt']}", title_justify="left")
    for column in ("seconds", "event", "detail", ""):
        table.add_column(column, justify="right" if column == "seconds" else "left")
    start = told["life"][0]["time"]
    for event in told["life"]:
        detail = {key: value for key, value in event.items() if key not in (*_HIDDEN, "void")}
        told_of = ", ".join(f"{key} {value}" for key, value in detail.items() if value != "")
        undone = "undone" if event["void"] else ""
        table.add_row(f"{event['time'] - start:.1f}", event["event"], told_of, undone)
    return table
