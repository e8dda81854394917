"""What README and docs show works: their recipes can be planned, their commands run."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

from posttrain.plan import resolve
from posttrain.recipe import load
from posttrain.store import Store
from tests.core.runs import posttrain, write

PAGES = [Path("README.md"), *sorted(Path("docs").glob("*.md"))]
COMMAND = re.compile(r"(?<![\w/`-])`?posttrain ((?:(?:rewards|sandbox) )?[a-z]+)\b[^\n`|]*")

RUN = {
    "plan": ["plan", "{folder}/r.yaml", "--json"],
    "run": ["run", "{folder}/r.yaml", "--until", "tokens", "--set", "seed=1"],
    "status": ["status"],
    "logs": ["logs", "tokens", "--run", "small"],
    "show": ["show", "small/tokens@1"],
    "checkpoints": ["checkpoints"],
    "rewards serve": ["rewards", "serve", "--help"],
    "sandbox serve": ["sandbox", "serve", "--help"],
}
"""A real use of each command that is shown, in a folder with a finished run."""

ELSEWHERE = {"promote": "tests/e2e/test_smoke.py", "rollback": "tests/e2e/test_smoke.py"}
"""Commands that need a trained checkpoint, and the test file that runs them."""


def shown() -> set[str]:
    """The commands that README and docs show in code."""
    code = re.compile(r"`posttrain [^`\n]+`|^ {4}\S.*$", re.MULTILINE)
    pieces = [piece for page in PAGES for piece in code.findall(page.read_text())]
    return {found for piece in pieces for found in COMMAND.findall(piece)}


def test_each_command_shown_is_run_by_a_test() -> None:
    assert shown() <= RUN.keys() | ELSEWHERE.keys()
    for command, path in ELSEWHERE.items():
        assert f'"{command}"' in Path(path).read_text()


@pytest.mark.parametrize("name", RUN)
def test_a_command_shown_works(finished: Path, name: str) -> None:
    arguments = [part.format(folder=finished) for part in RUN[name]]
    done = posttrain(finished, *arguments) if "--help" not in arguments else _plain(arguments)
    assert done.returncode == 0, done.stderr
    assert done.stdout


def _plain(arguments: list[str]) -> "subprocess.CompletedProcess[str]":
    line = [sys.executable, "-m", "posttrain", *arguments]
    return subprocess.run(line, capture_output=True, text=True, timeout=60, check=False)


def test_recipes_shown_can_be_planned(tmp_path: Path) -> None:
    recipes = [
        block
        for page in PAGES
        for block in re.findall(r"```yaml\n(.*?)```", page.read_text(), re.DOTALL)
        if block.startswith("recipe:")
    ]
    assert recipes
    for number, recipe in enumerate(recipes):
        plan = resolve(load(write(tmp_path, recipe, f"{number}.yaml")), Store(tmp_path))
        assert plan.pending()


def test_links_in_the_pages_lead_somewhere() -> None:
    for page in PAGES:
        for target in re.findall(r"\]\((?!http)([^)#]+)", page.read_text()):
            assert (page.parent / target).exists(), f"{page}: {target}"
