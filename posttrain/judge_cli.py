"""The `posttrain judge` commands: parse, call and print."""

import json
import sys
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console

app = typer.Typer(
    no_args_is_help=True, add_completion=False, pretty_exceptions_enable=False,
    help="Measure judges.",
)  # fmt: skip
console = Console(markup=False, emoji=False, highlight=False, soft_wrap=True)


@app.callback()
def _options() -> None:
    """Measure judges."""


@app.command()
def calibrate(
    dialogues: Annotated[Path, typer.Argument(help="JSON lines that end with good responses")],
    rewards: Annotated[str, typer.Option(help="URL of the reward service")],
    verifier: Annotated[str, typer.Option(help="which of its verifiers judges")],
    charter: Annotated[Path | None, typer.Option(help="the charter it judges by")] = None,
    parameters: Annotated[str, typer.Option(help="JSON that goes with each request")] = "{}",
    rows: Annotated[int, typer.Option(min=1, help="dialogues to take")] = 50,
    rungs: Annotated[int, typer.Option(min=1, help="flaws of the worst response")] = 5,
    at_least: Annotated[float, typer.Option(min=-1, max=1, help="of spearman, to pass")] = 0.8,
    seed: int = 0,
    patience: Annotated[float, typer.Option(min=0.1, help="seconds to wait for verdicts")] = 600.0,
) -> None:
    """Hold a judge's scores against ladders of ever worse responses, and against themselves."""
    from posttrain.judging import calibration, completions

    judge = _judge(verifier, charter, parameters, rewards, patience)
    chosen = list(completions.read(dialogues))[:rows]
    found = calibration.calibrate(judge, chosen, rungs, seed, judge.rules())
    console.print(json.dumps({**judge.identity(), **found}, indent=1))
    if lacking := calibration.shortfalls(found, {"spearman": at_least}):
        console.print("\n".join(lacking))
        sys.exit(3)


def _judge(verifier: str, path: Path | None, parameters: str, url: str, patience: float) -> Any:
    from posttrain.charter import read
    from posttrain.judging.config import JudgeConfig
    from posttrain.judging.opinions import ServiceJudge

    charter = read(path.read_text("utf-8")) if path else None
    config = JudgeConfig(
        verifier=verifier, charter=charter.name if charter else None,
        parameters=json.loads(parameters),
    )  # fmt: skip
    return ServiceJudge(config, charter, url, patience, fresh=True)
