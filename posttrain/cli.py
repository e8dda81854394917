"""The `posttrain` command: parses, calls and prints. What it does is done elsewhere.

Exit codes: 0 done, 1 a stage failed, 2 wrong input, 3 a gate refused, 4 the machine failed us.
"""

import errno
import json
import sys
from contextlib import suppress
from pathlib import Path
from typing import Annotated, Any, NoReturn

import typer
from pydantic import ValidationError
from rich.console import Console

from posttrain import forecast, reports
from posttrain.charter_cli import app as charter_app
from posttrain.checkpoints_cli import COMMANDS, past_gates
from posttrain.checkpoints_cli import app as checkpoints_app
from posttrain.data_cli import app as data_app
from posttrain.journal import Archive, Journal
from posttrain.judge_cli import app as judge_app
from posttrain.plan import Plan, resolve
from posttrain.recipe import load
from posttrain.registry import Refused, Registry
from posttrain.registry.sight import in_sight
from posttrain.services import ServiceFailed
from posttrain.simulate_cli import simulate
from posttrain.store import Store
from posttrain.tables import plan_table, suite_table
from rewards.cli import app as rewards_app
from sandbox.cli import app as sandbox_app

UNWRAPPED = 10_000
"""Columns where no terminal shows the output: a line stays a line, for those who search in it."""

UNUSABLE = (errno.EACCES, errno.EPERM, errno.EROFS, errno.ENOTDIR, errno.EISDIR, errno.ENAMETOOLONG)
"""Faults of a path we were given, rather than of the machine."""

INTERRUPTED = 130
"""What Typer returns for a command that Ctrl-C ended."""

WRONG_USE: type[Exception] = typer.BadParameter.__mro__[2]
"""The base of Typer's faults, which it exports under no name of its own."""

app = typer.Typer(no_args_is_help=True, add_completion=False, pretty_exceptions_enable=False)
app.add_typer(checkpoints_app, name="checkpoints")
for command in COMMANDS:
    app.command()(command)
app.add_typer(charter_app, name="charter")
app.command()(simulate)
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
def plan(
    recipe: RecipePath, changes: Changes = None, machine: Machine = False, store: Where = HERE
) -> None:
    """Show what a recipe would run, and what is there already."""
    resolved = resolve(load(recipe, changes or []), Store(store))
    drawn = forecast.forecasts(resolved)
    if machine:
        _print_json(reports.describe(resolved) | {"forecasts": drawn})
        return
    console.print(plan_table(resolved))
    for line in forecast.lines(drawn):
        console.print(line)
    pending = len(resolved.pending())
    console.print(f"{pending} of {len(resolved.nodes)} stages to run")
    blocked = [node.blocked for node in resolved.nodes.values() if node.blocked]
    for why in blocked:
        console.print(f"blocked: {why}")
    if not blocked:
        console.print(f"next: posttrain run {recipe}")


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
    _summary(resolve(whole.recipe, place), place, recipe)
    if until is None:
        _promote_as_declared(whole, place)


@app.command()
def adopt(
    folder: Annotated[Path, typer.Argument(metavar="FOLDER", help="Hugging Face folder")],
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


def _summary(done: Plan, place: Store, recipe: Path) -> None:
    scores = reports.scores(done)
    if scores:
        console.print(suite_table(scores))
    last = list(done.nodes.values())[-1]
    console.print(f"artifacts: {place.root / 'artifacts' / done.recipe.name}")
    console.print("next:")
    for command in reports.next_commands(done, last, recipe):
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
        _end(_told_of_use(fault), 2)
    except Exception as fault:  # noqa: BLE001  # Told in one line, whatever it is.
        _end(*_told(fault))
    _end("interrupted" if code == INTERRUPTED else "", 1 if code == INTERRUPTED else code or 0)


def _told(fault: Exception) -> tuple[str, int]:
    """The line and the exit code of a fault."""
    if isinstance(fault, OSError):
        return _told_of_system(fault)
    if isinstance(fault, ModuleNotFoundError) and _of_others(fault.name or ""):
        needed = "this command needs the CPU environment: run `make install`"
        return f"{needed} (there is no module {fault.name} here)", 2
    if isinstance(fault, ValidationError):
        first = fault.errors(include_url=False)[0]
        return f"{'.'.join(map(str, first['loc']))}: {first['msg']} (given {first['input']!r})", 2
    for kind, code in ((Refused, 3), (ValueError, 2), (ServiceFailed, 4), (RuntimeError, 1)):
        if isinstance(fault, kind):
            return str(fault), code
    return f"internal error: {fault.__class__.__name__}: {fault}; --debug shows where", 4


def _of_others(module: str) -> bool:
    """Whether a module comes with an extra, rather than with us."""
    return module.partition(".")[0] not in ("", "posttrain", "rewards", "sandbox")


def _told_of_use(fault: Any) -> str:
    """Typer's message; nothing where, for want of any argument, it has shown the help."""
    message = " ".join(fault.format_message().split())
    return f"{message} (see posttrain --help)" if message else ""


def _told_of_system(fault: OSError) -> tuple[str, int]:
    if fault.errno == errno.ENOSPC:
        return "disk full; free some space and run the same command again", 4
    if fault.errno in UNUSABLE:
        return f"{fault.filename} cannot be used: {fault.strerror}", 2
    return str(fault), 4


def _end(message: str, code: int) -> NoReturn:
    if message:
        sys.stderr.write(f"error: {message}\n")
    sys.exit(code)
