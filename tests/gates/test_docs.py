"""docs/checkpoints.md works, as tests/page.py says, and names all that there is."""

from pathlib import Path

import pytest
from typer.main import get_command_name

from posttrain.checkpoints_cli import COMMANDS, app
from posttrain.equivalence.changes import Changes
from posttrain.gates import Statistics, Threshold
from tests.page import DOCS, follow

PAGE = (DOCS / "checkpoints.md").read_text()


@pytest.mark.timeout(600)
def test_the_page_does_what_it_says(tmp_path: Path) -> None:
    follow(PAGE, tmp_path)


def test_the_page_names_all_there_is() -> None:
    for name in {*Threshold.model_fields, *Statistics.model_fields, *Changes.model_fields}:
        assert f"`{name}`" in PAGE, name
    for command in COMMANDS:
        assert f"posttrain {command.__name__}" in PAGE, command
    for registered in app.registered_commands:
        assert registered.callback is not None
        name = registered.name or get_command_name(registered.callback.__name__)
        assert f"posttrain checkpoints {name}" in PAGE, name


def test_the_defaults_told_are_those_there_are() -> None:
    statistics = Statistics()
    for name in ("error", "power", "discordant"):
        assert f"| `{name}` | {getattr(statistics, name) * 100:g}% |" in PAGE
    assert f"| `correction` | `{statistics.correction}` |" in PAGE
