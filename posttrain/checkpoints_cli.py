"""Commands on checkpoints and aliases: `posttrain checkpoints ...`, `promote`, `rollback`, ..."""

import json
import sys
from datetime import UTC, date, datetime, timedelta
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.text import Text

from posttrain import names
from posttrain.gates import UNWAIVABLE, Finding, Promotion, described
from posttrain.journal import Archive, Journal
from posttrain.registry import Refused, Registry
from posttrain.registry.lineage import difference, lineage, origin
from posttrain.registry.registry import author
from posttrain.store import Artifact, Store

_WIDE = 10_000
"""Columns where no terminal shows the output: a line stays a line."""

_DAYS = 30
"""Days that a waiver or a signature holds unless it says otherwise."""

console = Console(markup=False, emoji=False, highlight=False)
if not console.is_terminal:
    console.width = _WIDE

app = typer.Typer(
    add_completion=False, pretty_exceptions_enable=False, invoke_without_command=True,
    help="List, show and compare checkpoints; without a command, list them.",
)  # fmt: skip

Named = Annotated[str, typer.Argument(metavar="CHECKPOINT", help="run/stage@number or an alias")]
Machine = Annotated[bool, typer.Option("--json", help="print JSON")]
Where = Annotated[
    Path, typer.Option("--store", envvar="POSTTRAIN_STORE", help="folder of the artifact store")
]
HERE = Path("store")
Reason = Annotated[str, typer.Option(help="why: it stays in the history")]
By = Annotated[str | None, typer.Option(help="who answers for it; else the user's name")]
Expires = Annotated[
    datetime | None,
    typer.Option(formats=["%Y-%m-%d"], help=f"last day it holds; else {_DAYS} days from now"),
]


@app.callback()
def _bare(context: typer.Context, machine: Machine = False, store: Where = HERE) -> None:
    if context.invoked_subcommand is None:
        list_(machine, store)


@app.command("list")
def list_(machine: Machine = False, store: Where = HERE) -> None:
    """List checkpoints and the aliases that point to them."""
    registry = Registry(Store(store))
    events = registry.history()
    aliases, retired = registry.aliases(), registry.retired()
    rows: list[dict[str, Any]] = [
        {
            "checkpoint": found.address, "kind": found.record.kind, "key": found.record.key,
            "digest": found.record.digest, "created": found.record.created,
            "aliases": sorted(a for a, target in aliases.items() if target == found.address),
            "auxiliary": bool(found.record.facts.get("auxiliary")),
            "retired": found.address in retired,
        }
        for found in registry.checkpoints()
    ]  # fmt: skip
    if machine:
        _print_json(
            {"checkpoints": rows, "history": [event.model_dump(mode="json") for event in events]}
        )
        return
    for row in rows:
        marks = [*row["aliases"], *(mark for mark in ("auxiliary", "retired") if row[mark])]
        console.print(f"{row['checkpoint']:<28} {row['kind']:<9} {', '.join(marks)}")
    if not rows:
        console.print("no checkpoints yet; next: posttrain run recipes/quickstart.yaml")


@app.command()
def show(checkpoint: Named, machine: Machine = False, store: Where = HERE) -> None:
    """Show a checkpoint: what it is, which aliases it had, what was said of it."""
    registry = Registry(Store(store))
    found = registry.resolve(checkpoint)
    told = [e.model_dump(mode="json") for e in registry.history() if _concerns(e, found)]
    whole = origin(found).told() | {"path": str(found.path), "events": told}
    if machine:
        _print_json(whole)
        return
    console.print(f"{found.address} ({found.record.kind}), committed {found.record.created}")
    for name in ("key", "digest", "path", "inputs", "config", "code", "environment"):
        value = whole[name] if isinstance(whole[name], str) else json.dumps(whole[name])
        console.print(f"  {name:<12} {value}")
    for event in told:
        alias = f" {event['alias']}" if "alias" in event else ""
        console.print(f"  {event['time'][:19]} {event['event']}{alias}, by {event['author']}")


@app.command("lineage")
def lineage_(checkpoint: Named, machine: Machine = False, store: Where = HERE) -> None:
    """Show all that a checkpoint was made from, down to the data."""
    place = Store(store)
    found = [origin(each) for each in lineage(place, Registry(place).resolve(checkpoint))]
    if machine:
        _print_json([each.told() for each in found])
        return
    for each in found:
        made_from = ", ".join(f"{role} = {address}" for role, address in each.inputs.items())
        console.print(
            f"{each.address:<28} {each.kind:<9} key {each.key[:12]}  digest {each.digest[:12]}"
        )
        if made_from:
            console.print(f"  inputs {made_from}")
        if each.manifest:
            console.print(f"  manifest {each.manifest[:12]}")


@app.command()
def diff(one: Named, other: Named, machine: Machine = False, store: Where = HERE) -> None:
    """Show where two checkpoints and all they were made from differ, field by field."""
    place = Store(store)
    registry = Registry(place)
    found = difference(place, registry.resolve(one), registry.resolve(other))
    if machine:
        _print_json({field: list(values) for field, values in found.items()})
        return
    for field, (before, after) in found.items():
        console.print(f"{field}: {_brief(before)} -> {_brief(after)}")
    if not found:
        console.print("no difference")


@app.command()
def equivalence(
    source: Annotated[str, typer.Argument(help="folder, run/stage@number or alias")],
    target: Annotated[str, typer.Argument(help="what was made from it, named likewise")],
    dtype: Annotated[str | None, typer.Option(help="what floats were rounded to")] = None,
    output_vocabulary: Annotated[int | None, typer.Option(help="rows the head kept")] = None,
    most_kl: Annotated[float | None, typer.Option(help="divergence allowed, in nats")] = None,
    machine: Machine = False,
    store: Where = HERE,
) -> None:
    """Examine whether one checkpoint is another, but for stated changes; exit code 3 if not."""
    from posttrain.conversion.converting import Layout
    from posttrain.equivalence.changes import Changes
    from posttrain.equivalence.examination import examine

    registry = Registry(Store(store))
    stated = {"dtype": dtype, "output_vocabulary": output_vocabulary, "most_kl": most_kl}
    places = [
        Layout.of(Path(name) if Path(name).is_dir() else registry.resolve(name).path)
        for name in (source, target)
    ]
    changes = Changes.model_validate(stated)
    found = examine(places[0].weights, places[1].weights, changes, places[0].config)
    if machine:
        _print_json([{"check": c.name, "passed": c.passed, "told": c.text()} for c in found])
    for check in found if not machine else ():
        mark = Text("holds", "green") if check.passed else Text("fails", "red")
        console.print(Text.assemble(f"{check.name}: ", mark, f"  {check.text()}"))
    if failed := [check.name for check in found if not check.passed]:
        raise Refused(f"{target} is not {source}: {', '.join(failed)}")


def promote(
    checkpoint: Named,
    to: Annotated[str, typer.Option(help="the alias to move, e.g. candidate")],
    machine: Machine = False,
    store: Where = HERE,
) -> None:
    """Move an alias to a checkpoint if every gate of its recipe holds."""
    names.checked(to)
    place = Store(store)
    found = Registry(place).resolve(checkpoint)
    archive = Journal(place, found.record.run).archived()
    if archive.promote is None:
        raise ValueError(
            f"the recipe of run {found.record.run} has no `promote` block, so it states no gates"
        )
    past_gates(place, found, to, archive.promote, archive, machine=machine)


def past_gates(
    place: Store,
    checkpoint: Artifact,
    alias: str,
    promotion: Promotion,
    archive: Archive,
    *,
    machine: bool = False,
) -> None:
    """Examine `checkpoint`, print the findings and, if all hold, move `alias`; else Refused."""
    from posttrain.promotion import examine

    found = examine(place, checkpoint, alias, promotion, archive.stages)
    if not machine:
        _print_findings(found)
    moved = Registry(place).promote(checkpoint, alias, found)
    if machine:
        gates = [finding.told() for finding in found]
        _print_json({"alias": alias, "to": checkpoint.address, "moved": moved, "gates": gates})
    else:
        console.print(f"{alias} {'->' if moved else 'is already'} {checkpoint.address}")


def _print_findings(found: list[Finding]) -> None:
    for finding in found:
        mark = Text("holds", "green") if finding.passed else Text("fails", "red")
        console.print(Text.assemble(f"gate {finding.gate}: ", mark, f"  {finding.figures}"))


def rollback(alias: str, machine: Machine = False, store: Where = HERE) -> None:
    """Move an alias back to where it pointed before its last promotion."""
    before, after = Registry(Store(store)).rollback(alias)
    if machine:
        _print_json({"alias": alias, "from": before, "to": after})
    else:
        console.print(f"{alias}: {before} -> {after}")


def retire(
    checkpoint: Named, reason: Reason, machine: Machine = False, store: Where = HERE
) -> None:
    """Give a checkpoint up, if no alias, run or lineage needs it; `gc` then removes its files."""
    registry = Registry(Store(store))
    found = registry.resolve(checkpoint)
    changed = registry.retire(found, reason)
    if machine:
        _print_json({"checkpoint": found.address, "retired": changed})
    else:
        state = "retired; next: posttrain gc --dry-run" if changed else "was retired before"
        console.print(f"{found.address} {state}")


def gc(
    dry_run: Annotated[bool, typer.Option("--dry-run", help="remove nothing, only tell")] = False,
    machine: Machine = False,
    store: Where = HERE,
) -> None:
    """Remove the files of retired checkpoints, and of what was made from them, if unneeded."""
    registry = Registry(Store(store))
    sizes = {each.address: _size(each) for each in registry.garbage()}
    gone = list(sizes) if dry_run else [each.address for each in registry.collect()]
    if machine:
        told = [{"artifact": address, "bytes": sizes.get(address, 0)} for address in gone]
        _print_json({"dry_run": dry_run, "artifacts": told})
        return
    for address in gone:
        verb = "would remove" if dry_run else "removed"
        console.print(f"{verb} {address}, {sizes.get(address, 0):,} bytes")
    if not gone:
        console.print("nothing to remove")


def waive(
    checkpoint: Named,
    gate: Annotated[str, typer.Option(help="the gate, as `promote` prints it")],
    reason: Reason,
    by: By = None,
    expires: Expires = None,
    machine: Machine = False,
    store: Where = HERE,
) -> None:
    """Let a checkpoint pass although a gate fails; the history keeps who, why and how long."""
    place = Store(store)
    registry = Registry(place)
    found, until = registry.resolve(checkpoint), _until(expires)
    _check_waivable(place, found, gate)
    registry.waive(found, gate, reason=reason, expires=until, by=author() if by is None else by)
    _told_decision(machine, f"{found.address}: gate {gate} waived", until)


def _check_waivable(place: Store, checkpoint: Artifact, gate: str) -> None:
    """ValueError unless a gate of the checkpoint's recipe is called so, and may be waived."""
    run = checkpoint.record.run
    promotion = Journal(place, run).archived().promote
    known = [name for name in described(promotion) if name not in UNWAIVABLE] if promotion else []
    if gate not in known:
        hint = names.nearest(gate, known) if known else "it has none that may be waived"
        raise ValueError(f"the recipe of run {run} has no gate {gate[:80]!r}; {hint}")


def sign(
    checkpoint: Named,
    to: Annotated[str, typer.Option(help="the alias it may, or may not, become")],
    reason: Reason,
    refuse: Annotated[bool, typer.Option("--refuse", help="it may not")] = False,
    by: By = None,
    expires: Expires = None,
    machine: Machine = False,
    store: Where = HERE,
) -> None:
    """Give a person's word on a checkpoint, for gates that ask for a `sign_off`."""
    registry = Registry(Store(store))
    found, until = registry.resolve(checkpoint), _until(expires)
    registry.sign(
        found,
        to,
        approves=not refuse,
        reason=reason,
        expires=until,
        by=author() if by is None else by,
    )
    word = "refused" if refuse else "approved"
    _told_decision(machine, f"{found.address}: {word} as {to}", until)


COMMANDS = (promote, rollback, retire, gc, waive, sign)
"""Commands that stand beside `checkpoints`, not under it."""


def _told_decision(machine: bool, line: str, until: date) -> None:
    if machine:
        _print_json({"recorded": line, "expires": until.isoformat()})
    else:
        console.print(f"{line}, until {until}")


def _until(expires: datetime | None) -> date:
    today = datetime.now(UTC).date()
    until = expires.date() if expires else today + timedelta(days=_DAYS)
    if until < today:
        raise ValueError(f"--expires {until} is past; name a day to come")
    return until


def _concerns(event: Any, found: Artifact) -> bool:
    return bool(event.checkpoint.address == found.address)


def _size(artifact: Artifact) -> int:
    return sum((artifact.path / name).stat().st_size for name in artifact.record.files)


def _brief(value: Any) -> str:
    text = json.dumps(value)
    return text if len(text) <= 60 else f"{text[:57]}..."


def _print_json(value: Any) -> None:
    sys.stdout.write(json.dumps(value, indent=1) + "\n")
