"""What a user sees of a running plan: a live table on a terminal, plain lines elsewhere."""

import time
from collections.abc import Mapping
from types import TracebackType
from typing import Any

from rich.console import Console
from rich.live import Live
from rich.table import Table
from rich.text import Text

from posttrain.controller import Attempt, Controller
from posttrain.plan import Node
from posttrain.schedule import ATTEMPTS

_LINE_EVERY = 10.0
_SHOWN_METRICS = 3


class View:
    """Follows a controller; used as a context manager and called at each tick."""

    def __init__(self, console: Console) -> None:
        self._console = console
        self._live = Live(console=console, refresh_per_second=4) if console.is_terminal else None
        self._lines = Lines(console)
        self._pace = Pace()

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
            self._live.update(progress_table(controller, self._pace))
        else:
            self._lines.follow(controller)


class Lines:
    """Plain output: a line when a stage starts or ends, and one every ten seconds between."""

    def __init__(self, console: Console) -> None:
        self._console = console
        self._known: set[str] | None = None
        self._told: dict[str, float] = {}
        self._pace = Pace()

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
                self._console.print(f"{name}: {state_of(attempt, sign, self._pace)}")


class Pace:
    """How fast each attempt goes, measured from where it began: not at step 0 if it continues."""

    def __init__(self) -> None:
        self._begun: dict[tuple[str, int, str], tuple[float, int]] = {}

    def left(self, attempt: Attempt, sign: Mapping[str, Any]) -> float | None:
        """Seconds to the last step of the sign's phase, if that can be told yet; never below 0."""
        key = (attempt.node.name, attempt.number, sign["phase"])
        time_begun, step_begun = self._begun.setdefault(key, (sign["time"], sign["step"]))
        seconds, steps = sign["time"] - time_begun, sign["step"] - step_begun
        if seconds <= 0 or steps <= 0:
            return None
        return float(max(seconds / steps * (sign["steps"] - sign["step"]), 0.0))


def progress_table(controller: Controller, pace: Pace) -> Table:
    """One row a node: state, step, latest metrics (cut where the terminal ends) and time."""
    table = Table(title=f"run {controller.plan.recipe.name}", title_justify="left")
    for column in ("stage", "kind", "progress", "metrics", "time"):
        table.add_column(column, no_wrap=column != "metrics")
    for node in controller.plan.nodes.values():
        position, metrics, time_spent = _cells(controller, node, pace)
        cut = Text(metrics, no_wrap=True, overflow="ellipsis")
        table.add_row(node.name, node.kind, position, cut, time_spent)
    return table


def _cells(controller: Controller, node: Node, pace: Pace) -> tuple[str, str, str]:
    if node.name in controller.addresses:
        return ("cached" if node.cached else "done"), "", ""
    attempt = controller.running.get(node.name)
    if attempt is None:
        return "waiting", "", ""
    sign = controller.journal.latest(node.name)
    return _position(sign), _metrics(sign), _timing(attempt, sign, pace)


def state_of(attempt: Attempt, sign: Mapping[str, Any] | None, pace: Pace) -> str:
    """One running stage in one line."""
    again = f"started again ({attempt.number} of {ATTEMPTS})" if attempt.number > 1 else ""
    parts = (again, _position(sign), _metrics(sign), _timing(attempt, sign, pace))
    return ", ".join(part for part in parts if part)


def _position(sign: Mapping[str, Any] | None) -> str:
    if sign is None:
        return "starting"
    return f"{sign['phase']} {sign['step']}/{sign['steps']}"


def _metrics(sign: Mapping[str, Any] | None) -> str:
    """The first few metrics; the step is told as the position."""
    metrics = sign["metrics"].items() if sign else ()
    shown = [f"{name} {value:.3g}" for name, value in metrics if name not in ("step", "steps")]
    return "  ".join(shown[:_SHOWN_METRICS])


def _timing(attempt: Attempt, sign: Mapping[str, Any] | None, pace: Pace) -> str:
    spent = f"{max(time.time() - attempt.started, 0.0):.0f} s"
    left = pace.left(attempt, sign) if sign else None
    return f"{spent}, about {left:.0f} s left" if left else spent
