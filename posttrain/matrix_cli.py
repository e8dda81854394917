"""The command `posttrain matrix`: parses, calls and prints."""

import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.console import Console
from rich.table import Table

from posttrain.store import Store

if TYPE_CHECKING:
    from posttrain.matrix.cells import Cell, Matrix

_WIDE = 10_000
"""Columns where no terminal shows the output: a line stays a line."""

_MARKS = {1: " ▲", 0: "", -1: " ▼"}

console = Console(markup=False, emoji=False, highlight=False)
if not console.is_terminal:
    console.width = _WIDE


def matrix(
    run: Annotated[str, typer.Argument(help="a run of the store")],
    groups: Annotated[
        bool, typer.Option("--groups", help="a row for each task, length, ... of a suite too")
    ] = False,
    svg: Annotated[Path | None, typer.Option(help="also draw it into this file")] = None,
    machine: Annotated[bool, typer.Option("--json", help="print JSON")] = False,
    store: Annotated[
        Path, typer.Option("--store", envvar="POSTTRAIN_STORE", help="folder of the store")
    ] = Path("store"),
) -> None:
    """Show what each checkpoint of a run can do, by suite, with intervals and changes."""
    from posttrain.matrix.cells import matrix as made
    from posttrain.matrix.picture import svg as drawn
    from posttrain.matrix.reading import measured

    found = made(run, measured(Store(store), run), groups=groups)
    if svg is not None:
        svg.write_text(drawn(found), encoding="utf-8")
    if machine:
        sys.stdout.write(json.dumps(found.told(), indent=1) + "\n")
        return
    console.print(_table(found))
    console.print("▲ ▼ changed from the checkpoint before, p < 0.05 (paired, uncorrected)")
    console.print(f"picture: {svg}" if svg else f"next: posttrain matrix {run} --svg matrix.svg")


def _table(found: "Matrix") -> Table:
    table = Table(title=f"{found.run}: share right, 95 % interval", title_justify="left")
    table.add_column("capability")
    for name in found.checkpoints:
        table.add_column(name, justify="right")
    for capability in found.capabilities:
        cells = (found.cells.get((capability, name)) for name in found.checkpoints)
        table.add_row(capability, *(_text(each) if each else "-" for each in cells))
    return table


def _text(cell: "Cell") -> str:
    return f"{cell.accuracy:.3f}{_MARKS[cell.change]} ({cell.low:.3f} to {cell.high:.3f})"
