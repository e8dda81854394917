"""The `posttrain` command: parses, calls and prints. What it does is done elsewhere.

Exit codes: 0 done, 1 a stage failed, 2 wrong input, 3 a gate refused, 4 the machine failed us.
"""

import json
import sys
from contextlib import suppress
from pathlib import Path
from typing import Annotated, Any, NoReturn

import typer
from rich.console import Console

from posttrain import errors, reports
from posttrain.bisect_cli import bisect
from posttrain.charter_cli import app as charter_app
from posttrain.checkpoints_cli import COMMANDS, past_gates
from posttrain.checkpoints_cli import app as checkpoints_app
from posttrain.data_cli import app as data_app
from posttrain.errors import Kind
from posttrain.journal import Archive, Journal
from posttrain.judge_cli import app as judge_app
from posttrain.ledger_cli import ledger
from posttrain.matrix_cli import matrix
from posttrain.plan import Plan, resolve
from posttrain.plan_cli import plan
from posttrain.recipe import load
from posttrain.registry import Registry
from posttrain.registry.sight import in_sight
from posttrain.release_cli import app as release_app
from posttrain.serve_cli import serve
from posttrain.simulate_cli import simulate
from posttrain.store import Store
from posttrain.tables import suite_table
from rewards.cli import app as rewards_app
from sandbox.cli import app as sandbox_app

UNWRAPPED = 10_000
"""Columns where no terminal shows the output: a line stays a line, for those who search in it."""

INTERRUPTED = 130
"""What Typer returns for a command that Ctrl-C ended."""

WRONG_USE: type[Exception] = typer.BadParameter.__mro__[2]
"""The base of Typer's faults, which it exports under no name of its own."""

app = typer.Typer(no_args_is_help=True, add_completion=False, pretty_exceptions_enable=False)
app.add_typer(checkpoints_app, name="checkpoints")
for command in COMMANDS:
    app.command()(command)
app.add_typer(charter_app, name="charter")
app.command()(plan)
app.command()(simulate)
app.command()(ledger)
app.command()(bisect)
app.command()(matrix)
app.command()(serve)
app.add_typer(release_app, name="release")
app.add_typer(data_app, name="data")
app.add_typer(judge_app, name="judge")
app.add_typer(rewards_app, name="rewards")
app.add_typer(sandbox_app, name="sandbox")
console = Console(markup=False, emoji=False, highlight=False)
if not console.is_terminal:
    console.width = UNWRAPPED

RecipePath = Annotated[Path, typer.Argument(metavar="RECIPE", help="recipe file (YAML)")]
Changes = Annotated[
    list[str] | None, typer.Option("--set", metavar="A.B=VALUE", help="change one recipe value")
]
Machine = Annotated[bool, typer.Option("--json", help="print JSON")]
Where = Annotated[
    Path, typer.Option("--store", envvar="POSTTRAIN_STORE", help="folder of the artifact store")
]
HERE = Path("store")


@app.callback()
def _options(
    debug: Annotated[bool, typer.Option("--debug", help="show tracebacks")] = False,
) -> None:
    """Turn a base language model into a released assistant by running one recipe."""


@app.command()
def run(
    recipe: RecipePath,
    changes: Changes = None,
    until: Annotated[str | None, typer.Option(help="stop after this stage")] = None,
    ray_address: Annotated[str | None, typer.Option(help="Ray cluster, e.g. auto")] = None,
    store: Where = HERE,
) -> None:
    """Run a recipe; what the store has already is not run again."""
    place = Store(store)
    whole = resolve(load(recipe, changes or []), place)
    resolved = whole if until is None else whole.until(until)
    resolved.check()
    if not resolved.pending():
        console.print(f"nothing to do: all {len(resolved.nodes)} stages are in {place.root}")
    else:
        from posttrain.running import carry_out

        timing = carry_out(resolved, place, ray_address, console)
        console.print(timing)
    done = resolve(whole.recipe, place)
    last = list(done.nodes.values())[-1]
    _summary(done, place, reports.next_commands(done, last, recipe, changes or [], store))
    if until is None:
        _promote_as_declared(whole, place)


@app.command()
def adopt(
    folder: Annotated[
        Path, typer.Argument(metavar="PATH", help="Hugging Face folder, or GGUF file")
    ],
) -> None:
    """Show the lines with which a recipe starts from a checkpoint made elsewhere."""
    from posttrain.stages.adopt import digest_of, parts

    size = sum(path.stat().st_size for path in parts(folder).values())
    with console.status(f"reading {size / 1e9:.2f} GB"):
        found = digest_of(folder)
    path = json.dumps(str(folder.absolute()))
    console.print(f"stages:\n  base:\n    kind: adopt\n    path: {path}\n    digest: {found}")


@app.command()
def status(
    run: Annotated[str | None, typer.Argument(metavar="[RUN]")] = None,
    machine: Machine = False,
    store: Where = HERE,
) -> None:
    """Show where a run, or each run of the store, stands."""
    found = reports.statuses(Store(store), run)
    if machine:
        _print_json(found)
        return
    for one in found:
        console.print(f"{one['run']}: {one['state']}")
        for stage in one["stages"]:
            console.print(f"  {stage['name']:<16} {stage['state']:<10} {stage['detail']}")
    if not found:
        console.print("no runs yet; next: posttrain run recipes/quickstart.yaml")


@app.command(name="stalls")
def show_stalls(run: str, machine: Machine = False, store: Where = HERE) -> None:
    """Show who waits for whom in a run, since when, and what to do about it."""
    from posttrain import stalls

    found = stalls.told(Store(store), run)
    if machine:
        _print_json(found)
        return
    for line in stalls.lines(found):
        console.print(line)


@app.command()
def logs(
    stage: Annotated[str, typer.Argument(help="a stage, or `rewards`")],
    run: Annotated[str | None, typer.Option(help="which run, if the store has several")] = None,
    follow: Annotated[bool, typer.Option("-f", help="keep printing until interrupted")] = False,
    store: Where = HERE,
) -> None:
    """Print what a stage printed."""
    place = Store(store)
    path = Journal(place, run or reports.only_run(place)).log(stage)
    with suppress(KeyboardInterrupt):
        for piece in reports.tail(path, follow):
            sys.stdout.write(piece)
            sys.stdout.flush()


@app.command()
def show(artifact: str, machine: Machine = False, store: Where = HERE) -> None:
    """Show an artifact's record: `run/stage@number`."""
    found = Store(store).get(artifact)
    record = found.record.model_copy(update={"metrics": in_sight(found.record)})
    if machine:
        _print_json(record.model_dump())
        return
    console.print(f"{found.address} ({record.kind}), committed {record.created}")
    console.print(f"  key     {record.key}\n  digest  {record.digest}\n  path    {found.path}")
    for title, table in (("inputs", record.inputs), ("metrics", record.metrics)):
        for name, value in table.items():
            console.print(f"  {title[:-1]:<7} {name} = {value}")
    console.print(f"  facts   {json.dumps(record.facts, sort_keys=True)}")


def _summary(done: Plan, place: Store, commands: list[str]) -> None:
    scores = reports.scores(done)
    if scores:
        console.print(suite_table(scores))
    console.print(f"artifacts: {place.root / 'artifacts' / done.recipe.name}")
    console.print("next:")
    for command in commands:
        console.print(f"  {command}")


def _promote_as_declared(plan: Plan, place: Store) -> None:
    wanted = plan.recipe.promote
    if wanted is None:
        return
    checkpoint = place.by_key()[plan.nodes[wanted.checkpoint].key]
    if Registry(place).aliases().get(wanted.to) == checkpoint.address:
        console.print(f"{wanted.to} is {checkpoint.address}")
        return
    # The checkpoint may be another run's; the gates are this recipe's all the same.
    archive = Archive.model_validate(reports.describe(plan))
    past_gates(place, checkpoint, wanted.to, wanted, archive)


def _print_json(value: Any) -> None:
    sys.stdout.write(json.dumps(value, indent=1) + "\n")


def main() -> None:
    """Run the command line; every fault becomes one clear line and an exit code."""
    if "--debug" in sys.argv:
        app()
    try:
        code = app(standalone_mode=False)
    except WRONG_USE as fault:
        _end(_told_of_use(fault), errors.WRONG_USE)
    except Exception as fault:  # noqa: BLE001  # Told in one line, whatever it is.
        _end(*errors.told(fault))
    if code == INTERRUPTED:
        _end("interrupted", errors.INTERRUPTED)
    sys.exit(code or 0)


def _told_of_use(fault: Any) -> str:
    """Typer's message; nothing where, for want of any argument, it has shown the help."""
    message = " ".join(fault.format_message().split())
    return f"{message} (see posttrain --help)" if message else ""


def _end(message: str, kind: Kind) -> NoReturn:
    if message:
        sys.stderr.write(errors.line(message, kind))
    sys.exit(kind.exit.value)
