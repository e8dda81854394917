"""What the command line shows: tables, and a bar while it waits.

Where the output is no terminal a table keeps each row on one line, and there is no bar. rich is
imported where it is used, as most commands show neither.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from rich.table import Table

    from rewards.rescoring import Reverification, Summary


@contextmanager
def progress(total: int, patience: float) -> Iterator[Any]:
    """A bar on the terminal; yields what is called with the number of items done."""
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TimeRemainingColumn

    shown = f"(an item waits up to {patience:g} s)"
    columns = (BarColumn(), MofNCompleteColumn(), TimeRemainingColumn(), shown)
    console = Console(stderr=True)
    with Progress(*columns, console=console, disable=not console.is_terminal) as bar:
        task = bar.add_task("", total=total)
        yield lambda done: bar.advance(task, done)


def table_of(*columns: str) -> "Table":
    """An empty table."""
    from rich.table import Table

    table = Table()
    for column in columns:
        table.add_column(column)
    return table


def show(table: "Table") -> None:
    """Print it."""
    from rich.console import Console

    console = Console(markup=False, emoji=False, highlight=False)
    if not console.is_terminal:
        console.width = 10_000  # A line stays a line.
    console.print(table)


def tell_summary(summary: "Summary") -> None:
    """Print how many items came to which verdict, and the mean scores."""
    table = table_of("verifier", "status", "reason", "items")
    for outcome, count in sorted(summary.counts.items()):
        table.add_row(*outcome, str(count))
    show(table)
    for (verifier, status, reason), detail in sorted(summary.details.items()):
        print(f"{verifier} {status} {reason}, the first: {detail}")
    for verifier, (mean, scores) in summary.means().items():
        print(f"{verifier}: mean score {mean:.4f} over {scores}")


def flip_table(found: "Reverification") -> "Table":
    """Verdicts that another version gives otherwise, by verifier."""
    table = table_of("verifier", "same", "flipped", "up", "down", "failed", "examples")
    names = {*found.same, *found.unknown, *(flip.after.verifier for flip in found.flips)}
    for name in sorted(names):
        flips = [flip for flip in found.flips if flip.after.verifier == name]
        up = sum((flip.before.verdict.score or 0) < (flip.after.score or 0) for flip in flips)
        examples = ", ".join(flip.after.id for flip in flips[:3])
        counts = (found.same[name], len(flips), up, len(flips) - up, found.unknown[name])
        table.add_row(name, *map(str, counts), examples)
    return table
