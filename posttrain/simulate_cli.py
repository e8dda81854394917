"""The `posttrain simulate` command: parses, calls and prints."""

import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.console import Console

if TYPE_CHECKING:
    from posttrain.simulation.settings import Settings

_WIDE = 10_000
"""Columns where no terminal shows the output: a line stays a line."""


def simulate(
    file: Annotated[
        Path | None, typer.Argument(metavar="[SETTINGS]", help="settings file (YAML)")
    ] = None,
    ran: Annotated[
        Path | None, typer.Option("--from", help="folder of an RL stage's artifact instead")
    ] = None,
    lengths: Annotated[
        Path | None, typer.Option(help="of --from: JSON file, length in tokens -> count")
    ] = None,
    growth: Annotated[
        float, typer.Option(help="of --from: a token's time with all slots live, over that alone")
    ] = 1.0,
    save: Annotated[Path | None, typer.Option(help="of --from: write the settings here")] = None,
    sizing: Annotated[
        bool, typer.Option(help="search the best split and the replicas needed")
    ] = True,
    machine: Annotated[bool, typer.Option("--json", help="print JSON")] = False,
) -> None:
    """Simulate asynchronous RL: throughput, ages, the best split, reward replicas needed."""
    if (file is None) == (ran is None):
        raise ValueError("give a settings file, or --from an RL stage's folder")
    if ran is None and (lengths or save or growth != 1):
        raise ValueError("--lengths, --growth and --save go with --from")
    settings = _read(file) if file else _measured(ran, lengths, growth, save)
    from posttrain.simulation.table import rows, table

    found = rows(settings, sizing)
    if machine:
        sys.stdout.write(json.dumps(found, indent=1) + "\n")
        return
    console = Console(markup=False, emoji=False, highlight=False)
    if not console.is_terminal:
        console.width = _WIDE
    console.print(table(found, settings))


def _read(file: Path) -> "Settings":
    from posttrain.recipe.loading import checked
    from posttrain.recipe.source import read
    from posttrain.simulation.settings import Settings

    source = read(file)
    settings, faults = checked(Settings, source.values, (), source)
    if faults:
        raise ValueError("\n".join(faults))
    assert isinstance(settings, Settings)
    return settings


def _measured(
    ran: Path | None, lengths: Path | None, growth: float, save: Path | None
) -> "Settings":
    from ruamel.yaml import YAML

    from posttrain.simulation.measured import settings_of

    assert ran is not None
    settings = settings_of(ran, lengths, growth)
    if save is not None:
        with save.open("w") as target:
            YAML().dump(settings.model_dump(exclude_none=True), target)
    return settings
