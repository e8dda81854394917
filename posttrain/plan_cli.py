"""The `posttrain plan` command: parses, calls and prints."""

import json
import sys
from dataclasses import asdict
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console

from posttrain import drawing, expectations, explained, forecast, preflight, reports
from posttrain.explained import Reason
from posttrain.plan import Plan, resolve
from posttrain.preflight import Finding
from posttrain.recipe import load
from posttrain.store import Store
from posttrain.tables import plan_table

_WIDE = 10_000
"""Columns where no terminal shows the output: a line stays a line."""


def plan(
    recipe: Annotated[Path, typer.Argument(metavar="RECIPE", help="recipe file (YAML)")],
    changes: Annotated[
        list[str] | None, typer.Option("--set", metavar="A.B=VALUE", help="change one recipe value")
    ] = None,
    tree: Annotated[bool, typer.Option("--tree", help="show the stages as a tree")] = False,
    svg: Annotated[Path | None, typer.Option(help="draw the stages into this file")] = None,
    check: Annotated[
        bool, typer.Option("--check", help="ask services and verl too; exits 2 at a fault")
    ] = False,
    machine: Annotated[bool, typer.Option("--json", help="print JSON")] = False,
    store: Annotated[
        Path, typer.Option("--store", envvar="POSTTRAIN_STORE", help="folder of the artifact store")
    ] = Path("store"),
) -> None:
    """Show what a recipe would run, why, and what is there already."""
    place = Store(store)
    resolved = resolve(load(recipe, changes or []), place)
    why = explained.reasons(resolved, place)
    findings = preflight.quick(resolved, place)
    if svg:
        svg.write_text(drawing.svg(resolved), encoding="utf-8")
    if machine:
        findings += preflight.thorough(resolved) if check else ()
        sys.stdout.write(json.dumps(_values(resolved, why, findings), indent=1) + "\n")
    else:
        console = _console()
        _print(console, resolved, why, tree)
        findings += _checked(console, resolved) if check else ()
        _conclude(console, resolved, findings, reports.run_command(recipe, changes or [], store))
        if svg:
            console.print(f"drawn: {svg}")
    if check and any(finding.fault for finding in findings):
        raise typer.Exit(2)


def _values(plan: Plan, why: dict[str, Reason], findings: list[Finding]) -> dict[str, Any]:
    return reports.describe(plan) | {
        "forecasts": forecast.forecasts(plan),
        "reasons": {name: asdict(reason) for name, reason in why.items()},
        "expected": {name: each._asdict() for name, each in expectations.of(plan).items()},
        "findings": [finding._asdict() for finding in findings],
    }


def _print(console: Console, plan: Plan, why: dict[str, Reason], tree: bool) -> None:
    if tree:
        for line in explained.tree(plan):
            console.print(line)
    else:
        console.print(plan_table(plan, why))
    for reason in why.values():
        if reason.changes:
            console.print(reason.told())
    for line in forecast.lines(forecast.forecasts(plan)):
        console.print(line)
    with console.status("simulating RL stages"):
        expected = expectations.of(plan)
    for name, each in expected.items():
        for line in each.told():
            console.print(f"{name}: {line}")


def _checked(console: Console, plan: Plan) -> list[Finding]:
    with console.status("asking services and verl"):
        return list(preflight.thorough(plan))


def _conclude(console: Console, plan: Plan, findings: list[Finding], command: str) -> None:
    stopped = sum(node.blocked is not None for node in plan.nodes.values())
    told = f", {stopped} of them blocked" if stopped else ""
    console.print(f"{len(plan.pending())} of {len(plan.nodes)} stages to run{told}")
    blocked = {node.blocked for node in plan.nodes.values() if node.blocked}
    for finding in findings:
        if finding.told in blocked:
            console.print(f"blocked: {finding.told}")
        else:
            console.print(f"{'fault: ' * finding.fault}{finding.subject}: {finding.told}")
    if not any(finding.fault for finding in findings):
        console.print(f"next: {command}")


def _console() -> Console:
    console = Console(markup=False, emoji=False, highlight=False)
    if not console.is_terminal:
        console.width = _WIDE
    return console
