"""The `posttrain release` commands: parse, call and print."""

import json
import os
import sys
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console
from rich.text import Text

from posttrain.registry import Refused
from posttrain.release.check import Result
from posttrain.release.endpoint import Endpoint
from posttrain.release.probe import Probe
from posttrain.release.suite import GROUPS, ModelChecks, Report, chosen, run
from posttrain.services import ServiceFailed
from posttrain.store import Store

_COLOURS = {"pass": "green", "fail": "red", "warn": "yellow", "skip": "dim"}

app = typer.Typer(
    no_args_is_help=True, add_completion=False, pretty_exceptions_enable=False,
    help="Examine what is to be released.",
)  # fmt: skip
console = Console(markup=False, emoji=False, highlight=False, soft_wrap=True)


@app.callback()
def _options() -> None:
    """Examine what is to be released."""


@app.command()
def check(
    url: Annotated[str, typer.Argument(metavar="URL", help="endpoint, http://HOST:PORT/v1")],
    model: Annotated[str, typer.Option(help="the model's name there")],
    group: Annotated[
        list[str] | None, typer.Option(help=f"only these: {', '.join(GROUPS)}")
    ] = None,
    model_checks: Annotated[
        str, typer.Option(help="a check about the model that does not hold: fail, warn or skip")
    ] = "fail",
    modality: Annotated[
        list[str] | None, typer.Option(help="what the model takes beside text: image, audio")
    ] = None,
    key_from: Annotated[
        str | None, typer.Option(metavar="VARIABLE", help="environment variable with the key")
    ] = None,
    patience: Annotated[float, typer.Option(min=0.1, help="seconds for one request")] = 120.0,
    within: Annotated[float, typer.Option(min=1, help="seconds for all checks")] = 1800.0,
    machine: Annotated[bool, typer.Option("--json", help="print JSON")] = False,
) -> None:
    """Make the release suite's checks: exit code 3 if one fails, 4 if the endpoint is gone."""
    if model_checks not in ("fail", "warn", "skip"):
        raise ValueError(f"--model-checks {model_checks!r} is none of fail, warn, skip")
    how: ModelChecks = model_checks  # type: ignore[assignment]
    if unknown := set(modality or ()) - {"image", "audio"}:
        raise ValueError(f"--modality {', '.join(sorted(unknown))} is none of image, audio")
    key = _key(key_from)
    probe = Probe(Endpoint(url, model, key=key, patience=patience), modality or ())
    told = (lambda result: None) if machine else _print
    report = run(probe, chosen(group or []), model_checks=how, within=within, told=told)
    if machine:
        sys.stdout.write(json.dumps(report.told(), indent=1) + "\n")
    else:
        _conclude(report)
    if report.lost is not None:
        raise ServiceFailed(report.lost)
    if not report.passed:
        failed = [each.name for each in report.results if each.outcome == "fail"]
        raise Refused(f"{model} is not fit for release: {', '.join(failed) or 'nothing passed'}")


def _key(variable: str | None) -> str | None:
    if variable is None:
        return None
    if not os.environ.get(variable):
        raise ValueError(f"--key-from {variable}: this variable is not set")
    return os.environ[variable]


def _print(result: Result) -> None:
    mark = Text(f"{result.outcome:<5}", _COLOURS[result.outcome])
    about = f"{result.group}/{result.name}"
    console.print(Text.assemble(mark, f"{about:<46} {result.seconds:5.1f} s  {result.reason}"))


def _conclude(report: Report) -> None:
    counts = ", ".join(f"{number} {outcome}" for outcome, number in report.counts.items())
    console.print(f"{len(report.results)} of {report.planned} checks in {report.seconds:.0f} s: {counts}")  # fmt: skip  # noqa: E501
    if report.passed:
        console.print("next: posttrain promote CHECKPOINT --to release")


@app.command()
def parity(
    url: Annotated[str, typer.Argument(metavar="URL", help="endpoint, http://HOST:PORT/v1")],
    checkpoint: Annotated[
        str, typer.Argument(metavar="CHECKPOINT", help="run/stage@number, alias or folder")
    ],
    model: Annotated[str | None, typer.Option(help="its name there, if it is another")] = None,
    machine: Annotated[bool, typer.Option("--json", help="print JSON")] = False,
    store: Annotated[
        Path, typer.Option("--store", envvar="POSTTRAIN_STORE", help="folder of the artifact store")
    ] = Path("store"),
) -> None:
    """Compare how a server renders, tokenises and ends with how its checkpoint was trained."""
    from posttrain.equivalence.served import served_faults
    from posttrain.release.endpoint import Gone, Unanswered
    from posttrain.serving.checkpoints import found

    [served] = found([checkpoint], Store(store))
    if not machine:
        console.print(f"asking {url} to render the frozen conversations")
    try:
        faults = list(served_faults(served.folder, Endpoint(url, model or checkpoint)))
    except (Gone, Unanswered) as fault:
        raise ServiceFailed(str(fault)) from None
    if machine:
        sys.stdout.write(json.dumps({"checkpoint": checkpoint, "faults": faults}, indent=1) + "\n")
    for line in faults if not machine else ():
        console.print(line)
    if faults:
        raise Refused(f"the server of {checkpoint} does {len(faults)} things otherwise")
    if not machine:
        console.print(f"the server renders and ends as {checkpoint} was trained")
