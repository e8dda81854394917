"""What a user sees of a running plan: a live table on a terminal, plain lines elsewhere."""

import time
from collections.abc import Mapping
from types import TracebackType
from typing import Any

from rich.console import Console
from rich.live import Live
from rich.table import Table

from posttrain.controller import Attempt, Controller
from posttrain.plan import Node, Plan

_LINE_EVERY = 10.0
_SHOWN_METRICS = 3


class View:
    """Follows a controller; used as a context manager and called at each tick."""

    def __init__(self, console: Console) -> None:
        self._console = console
        self._live = Live(console=console, refresh_per_second=4) if console.is_terminal else None
        self._lines = Lines(console)

    def __enter__(self) -> "View":
        if self._live:
            self._live.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        fault: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if self._live:
            self._live.stop()

    def __call__(self, controller: Controller) -> None:
        """Show the controller's present state."""
        if self._live:
            self._live.update(progress_table(controller))
        else:
            self._lines.follow(controller)


class Lines:
    """Plain output: a line when a stage starts or ends, and one every ten seconds between."""

    def __init__(self, console: Console) -> None:
        self._console = console
        self._known: set[str] | None = None
        self._told: dict[str, float] = {}

    def follow(self, controller: Controller) -> None:
        """Print what is new."""
        if self._known is None:
            self._known = set(controller.addresses)
        for name in controller.addresses.keys() - self._known:
            self._known.add(name)
            self._console.print(f"{name}: committed as {controller.addresses[name]}")
        for name, attempt in controller.running.items():
            if time.time() - self._told.get(f"{name}#{attempt.number}", 0) >= _LINE_EVERY:
                self._told[f"{name}#{attempt.number}"] = time.time()
                sign = controller.journal.latest(name)
                self._console.print(f"{name}: {state_of(attempt, sign)}")


def progress_table(controller: Controller) -> Table:
    """One row a node: state, step, latest metrics and time."""
    table = Table(title=f"run {controller.plan.recipe.name}", title_justify="left")
    for column in ("stage", "kind", "progress", "metrics", "time"):
        table.add_column(column, overflow="fold")
    for node in controller.plan.nodes.values():
        table.add_row(node.name, node.kind, *_cells(controller, node))
    return table


def _cells(controller: Controller, node: Node) -> tuple[str, str, str]:
    if node.name in controller.addresses:
        return ("cached" if node.cached else "done"), "", ""
    attempt = controller.running.get(node.name)
    if attempt is None:
        return "waiting", "", ""
    sign = controller.journal.latest(node.name)
    return _position(sign), _metrics(sign), _timing(attempt, sign)


def state_of(attempt: Attempt, sign: Mapping[str, Any] | None) -> str:
    """One running stage in one line."""
    parts = (_position(sign), _metrics(sign), _timing(attempt, sign))
    return ", ".join(part for part in parts if part)


def _position(sign: Mapping[str, Any] | None) -> str:
    if sign is None:
        return "starting"
    return f"{sign['phase']} {sign['step']}/{sign['steps']}"


def _metrics(sign: Mapping[str, Any] | None) -> str:
    shown = list(sign["metrics"].items())[:_SHOWN_METRICS] if sign else []
    return "  ".join(f"{name} {value:.3g}" for name, value in shown)


def _timing(attempt: Attempt, sign: Mapping[str, Any] | None) -> str:
    spent = time.time() - attempt.started
    if not sign or not 0 < sign["step"] < sign["steps"]:
        return f"{spent:.0f} s"
    left = (sign["time"] - attempt.started) / sign["step"] * (sign["steps"] - sign["step"])
    return f"{spent:.0f} s, about {left:.0f} s left"


def plan_table(plan: Plan) -> Table:
    """The plan as a table: state, inputs, cores and key of each node."""
    table = Table(title=f"plan of {plan.recipe.name}", title_justify="left")
    for column in ("stage", "kind", "state", "inputs", "cores", "key"):
        table.add_column(column, overflow="fold")
    for node in plan.nodes.values():
        inputs = ", ".join(dict.fromkeys(node.inputs.values()))
        table.add_row(
            node.name, node.kind, node.state, inputs, str(node.config.cores()), node.key[:12]
        )
    return table


def suite_table(scores: Mapping[str, Mapping[str, float]]) -> Table:
    """Accuracy by suite (rows) and checkpoint (columns, in the order they were made)."""
    table = Table(title="accuracy by suite and checkpoint", title_justify="left")
    table.add_column("suite")
    for checkpoint in scores:
        table.add_column(checkpoint, justify="right")
    metrics = dict.fromkeys(name for values in scores.values() for name in values)
    for metric in metrics:
        suite, _, name = metric.partition(".")
        # An accuracy by context length is a figure of its own; other groups are in the record.
        if name == "accuracy" or name.removeprefix("accuracy.").isdigit():
            row = [f"{v[metric]:.3f}" if metric in v else "-" for v in scores.values()]
            table.add_row(f"{suite} {name.removeprefix('accuracy')}".replace(" .", " at "), *row)
    return table
