"""What README and docs show works: their recipes can be planned, their commands run."""

import re
import subprocess
import sys
from pathlib import Path
from typing import get_args

import pytest

from posttrain.data.checks import CHECKS, module
from posttrain.data.formats import FORMATS
from posttrain.data.generators import GENERATORS
from posttrain.data.longcontext.probes import Probes
from posttrain.data.mixture import OnExhausted
from posttrain.forecast import forecasts, lines
from posttrain.liveness import Bounds
from posttrain.plan import resolve
from posttrain.recipe import load
from posttrain.recipe.schema import KIND_OF_DATA
from posttrain.store import Store
from tests.core.runs import posttrain, write
from tests.page import follow, run

PAGES = [Path("README.md"), *sorted(Path("docs").glob("*.md"))]
GROUPS = "charter|checkpoints|data|judge|rewards|sandbox"
COMMAND = re.compile(rf"(?<![\w/`-])`?posttrain ((?:(?:{GROUPS}) )?[a-z]+)\b[^\n`|]*")

RUN = {
    "plan": ["plan", "{folder}/r.yaml", "--json"],
    "run": ["run", "{folder}/r.yaml", "--until", "tokens", "--set", "seed=1"],
    "status": ["status"],
    "stalls": ["stalls", "small"],
    "logs": ["logs", "tokens", "--run", "small"],
    "show": ["show", "small/tokens@1"],
    "checkpoints": ["checkpoints"],
    "charter lint": ["charter", "lint", str(Path("recipes/charters/example.md").absolute())],
    "data freeze": [
        "data", "freeze", "{rows}", "--to", "{folder}/frozen.json", "--licence", "CC0-1.0",
        "--owner", "us",
    ],
    "data lint": ["data", "lint", "small/dialogues@1", "--tokenizer", "small/tokens@1"],
    "data show": ["data", "show", "small/dialogues@1"],
    "rewards serve": ["rewards", "serve", "--help"],
    "sandbox serve": ["sandbox", "serve", "--help"],
}  # fmt: skip
"""A real use of each command that is shown, in a folder with a finished run."""

WITHOUT_STORE = ("charter lint",)

ELSEWHERE = {
    "adopt": "tests/training/test_adopt.py",
    "promote": "tests/e2e/test_smoke.py", "rollback": "tests/e2e/test_smoke.py",
    "judge calibrate": "tests/judging/test_opinions.py",
    "ledger": "tests/rl/test_ledger_command.py", "serve": "tests/serving/test_cli.py",
}  # fmt: skip
"""Commands that need a trained checkpoint, and the test file that runs them."""


FOLLOWED = [
    Path("docs/checkpoints.md"), Path("docs/data.md"), Path("docs/rewards.md"),
    Path("docs/sandbox.md"), Path("docs/simulation.md"), Path("docs/recipes.md"),
    Path("docs/release.md"), Path("docs/evaluation.md"),
]  # fmt: skip
"""Pages whose ```bash blocks are run, here or by a test_docs.py elsewhere."""


def followed() -> set[str]:
    """The commands in the blocks of those."""
    block = re.compile(r"^```bash.*?^```$", re.MULTILINE | re.DOTALL)
    pieces = [piece for page in FOLLOWED for piece in block.findall(page.read_text())]
    return {found for piece in pieces for found in COMMAND.findall(piece)}


def shown() -> set[str]:
    """The commands that README and docs show in code."""
    code = re.compile(
        r"`posttrain [^`\n]+`|^ {4}\S[^\n]*$|^```sh\n.*?^```$", re.MULTILINE | re.DOTALL
    )
    pieces = [piece for page in PAGES for piece in code.findall(page.read_text())]
    return {found for piece in pieces for found in COMMAND.findall(piece)}


def test_each_command_shown_is_run_by_a_test() -> None:
    assert shown() <= RUN.keys() | ELSEWHERE.keys() | followed()
    for command, path in ELSEWHERE.items():
        assert f'"{command}"' in Path(path).read_text()


@pytest.mark.parametrize("name", RUN)
def test_a_command_shown_works(finished: Path, name: str) -> None:
    rows = Store(finished / "store").get("small/dialogues@1").path / "train.jsonl"
    arguments = [part.format(folder=finished, rows=rows) for part in RUN[name]]
    plain = "--help" in arguments or name in WITHOUT_STORE
    done = _plain(arguments) if plain else posttrain(finished, *arguments)
    assert done.returncode == 0, done.stderr
    assert done.stdout


def _plain(arguments: list[str]) -> "subprocess.CompletedProcess[str]":
    line = [sys.executable, "-m", "posttrain", *arguments]
    return subprocess.run(line, capture_output=True, text=True, timeout=60, check=False)


def test_the_page_on_data_does_what_it_says(tmp_path: Path) -> None:
    follow(Path("docs/data.md").read_text(), tmp_path)


def test_the_page_on_recipes_does_what_it_says(tmp_path: Path) -> None:
    page = Path("docs/recipes.md").read_text()
    follow(page, tmp_path)
    told = run("posttrain plan small.yaml --set data.dialogues.rows=33", tmp_path)
    (shown,) = re.findall(r"^dialogues: run, .*$", page, re.MULTILINE)
    assert shown in told
    assert "tokens.large" in run("posttrain plan variants.yaml --tree", tmp_path)
    assert "(simulated)" in run("posttrain plan timed.yaml", tmp_path)


def test_the_defaults_of_stalls_are_those_shown() -> None:
    (block,) = re.findall(r"^stalls:\n((?:  .*\n)+)", Path("docs/recipes.md").read_text(), re.M)
    stated = {key: float(value) for key, value in re.findall(r"^  (\w+): (\d+)", block, re.M)}
    assert stated == Bounds().model_dump()


def test_the_page_on_data_names_all_there_is() -> None:
    page = Path("docs/data.md").read_text()
    tasks = Probes.model_fields["tasks"].default
    for name in (*GENERATORS, *CHECKS, *FORMATS, *KIND_OF_DATA, *tasks, *get_args(OnExhausted)):
        assert re.search(rf"`{name}\b", page), name
    for name in CHECKS:
        for parameter in module(name).Parameters.model_fields:
            assert f"`{parameter}`" in page, (name, parameter)


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


def test_the_forecast_shown_is_that_of_the_recipe(tmp_path: Path) -> None:
    page = Path("docs/data.md").read_text()
    (recipe,) = re.findall(r"```yaml\n(.*?)```", page, re.DOTALL)
    (told,) = re.findall(r"```text\n(.*?)```", page, re.DOTALL)
    plan = resolve(load(write(tmp_path, recipe)), Store(tmp_path))
    assert list(lines(forecasts(plan))) == told.splitlines()


def test_links_in_the_pages_lead_somewhere() -> None:
    for page in PAGES:
        for target in re.findall(r"\]\((?!http)([^)#]+)", page.read_text()):
            assert (page.parent / target).exists(), f"{page}: {target}"
