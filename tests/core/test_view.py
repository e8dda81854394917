"""What a running plan looks like: bounded estimates, one line a stage, whole lines in logs."""

import io
from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.console import Console

from posttrain.controller import Attempt
from posttrain.journal import Journal, report_to
from posttrain.stages import Progress
from posttrain.store import Store
from posttrain.view import Lines, Pace, progress_table, state_of
from tests.core.test_schedule import node, plan

WIDE = {"step": 7.0, "steps": 9.0} | {f"critic/a_rather_long_name/{n}": n / 3 for n in range(9)}


def sign(time: float, step: int, steps: int = 100) -> dict[str, Any]:
    return {"time": time, "step": step, "steps": steps, "phase": "train", "metrics": WIDE}


def attempt(number: int = 1) -> Attempt:
    return Attempt(node("sft"), None, number, started=0.0)  # type: ignore[arg-type]


@given(st.lists(st.tuples(st.floats(-1e6, 1e6), st.integers(-5, 200)), min_size=1))
def test_the_time_left_is_never_negative(signs: list[tuple[float, int]]) -> None:
    pace = Pace()
    for time, step in signs:
        left = pace.left(attempt(), sign(time, step))
        assert left is None or left >= 0


def test_the_time_left_counts_from_where_this_attempt_began() -> None:
    pace = Pace()
    assert pace.left(attempt(), sign(1000, 80)) is None
    assert pace.left(attempt(), sign(1010, 85)) == pytest.approx(30)
    assert pace.left(attempt(2), sign(1100, 50)) is None


def test_a_line_shows_three_metrics_and_the_step_once() -> None:
    line = state_of(attempt(), sign(5, 7, 9), Pace())
    assert line.startswith("train 7/9, critic/a_rather_long_name/0 0  ")
    assert line.count("critic/") == 3
    assert line.count("step") == 0
    again = state_of(attempt(2), None, Pace())
    assert again.startswith("started again (2 of 4), starting")


@pytest.fixture
def controller(store: Store) -> Any:
    """What a view reads of a controller: one stage is done, one goes on, one waits."""
    journal = Journal(store, "r")
    journal.begin({})
    report_to(journal.progress("sft"), Progress(7, 9, metrics=WIDE))
    return SimpleNamespace(
        plan=plan(node("data"), node("sft"), node("rl")), journal=journal,
        addresses={"data": "r/data@1"}, running={"sft": attempt()},
    )  # fmt: skip


@pytest.mark.parametrize("width", [60, 80, 200])
def test_the_table_has_one_row_a_stage_on_any_terminal(controller: Any, width: int) -> None:
    out = io.StringIO()
    console = Console(file=out, width=width, force_terminal=False)
    console.print(progress_table(controller, Pace()))
    rows = [line for line in out.getvalue().splitlines() if line.startswith("│")]
    assert [row.split("│")[1].strip() for row in rows] == ["data", "sft", "rl"]
    assert "train 7/9" in rows[1]
    assert max(map(len, out.getvalue().splitlines())) <= width


def test_plain_lines_tell_each_stage_once(controller: Any) -> None:
    out = io.StringIO()
    lines = Lines(Console(file=out, width=10_000))
    lines.follow(controller)
    controller.addresses["sft"] = "r/sft@1"
    controller.running.clear()
    for _ in range(2):
        lines.follow(controller)
    first, second = out.getvalue().splitlines()
    assert first.startswith("sft: train 7/9, critic/")
    assert second == "sft: committed as r/sft@1"
