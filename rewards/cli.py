"""The command line of the reward service: parses, calls and prints. What it does is done elsewhere.

Exit codes: 0 done, 1 verdicts are not what they should be, 2 wrong input, 4 the machine failed us.
Only what a command needs is imported, for `posttrain` carries these commands too.
"""

import asyncio
import errno
import os
import shlex
import sys
from collections.abc import Coroutine, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, NoReturn

import typer

from rewards import terminal

if TYPE_CHECKING:
    from rewards.rescoring import Summary
    from rewards.serve import ServeOptions
    from rewards.verifiers import Profile

UNUSABLE = (errno.EACCES, errno.EPERM, errno.EROFS, errno.ENOENT, errno.ENOTDIR, errno.EISDIR)
"""Faults of a path we were given, rather than of the machine."""

PATIENCE = 3600.0
"""Seconds, that of rescoring.py."""

INTERRUPTED = 130
"""What Typer returns for a command that Ctrl-C ended."""

WRONG_USE: type[Exception] = typer.BadParameter.__mro__[2]
"""The base of Typer's faults, which it exports under no name of its own."""

app = typer.Typer(
    no_args_is_help=True, add_completion=False, pretty_exceptions_enable=False,
    help="Deploy reward services, and put questions to them.",
)  # fmt: skip

Where = Annotated[
    list[str] | None,
    typer.Option("--url", help="endpoint of a service, may be repeated; else one is started"),
]
Patience = Annotated[
    float,
    typer.Option(min=1e-3, help="seconds an item may wait for its verdict, its turn included"),
]
Workers = Annotated[int | None, typer.Option(min=1, help="worker processes (default: one a core)")]


@app.command()
def serve(
    host: Annotated[str, typer.Option(help="others than loopback need a token")] = "127.0.0.1",
    port: Annotated[int, typer.Option(min=0, max=65535, help="0 takes a free one")] = 8090,
    port_file: Annotated[
        Path | None, typer.Option(help="where to write the port once bound")
    ] = None,
    verifiers: Annotated[
        str | None,
        typer.Option(metavar="NAME[=MODULE],...", help="default: answer,math,constraints"),
    ] = None,
    workers: Workers = None,
    deadline: Annotated[float, typer.Option(min=1e-3, help="seconds a check may take")] = 10.0,
    queue: Annotated[int, typer.Option(min=1, help="items that may wait")] = 4096,
    cache: Annotated[int, typer.Option(min=1, help="verdicts remembered")] = 8192,
    drain: Annotated[
        float, typer.Option(min=1e-3, help="seconds that requests have at the end")
    ] = 5.0,
    token_file: Annotated[
        Path | None, typer.Option(help="bearer token, if not in REWARDS_TOKEN")
    ] = None,
    ledger: Annotated[
        Path | None, typer.Option(help="folder where every verdict is recorded")
    ] = None,
) -> None:
    """Serve verifiers over HTTP until stopped."""
    from rewards.serve import ServeOptions
    from rewards.serve import serve as run
    from rewards.verifiers import SELF_CONTAINED

    options = ServeOptions(
        host=host, port=port, port_file=port_file, workers=workers, deadline=deadline,
        queue=queue, cache=cache, drain=drain, token_file=token_file, ledger=ledger,
        verifiers=SELF_CONTAINED if verifiers is None else verifiers.split(","),
    )  # fmt: skip
    raise typer.Exit(run(options, lambda port, profiles: _say_where(options, port, profiles)))


def _say_where(options: "ServeOptions", port: int, profiles: Sequence["Profile"]) -> None:
    """Tell people; a program that started the service reads the port from its file."""
    if options.port_file is not None:
        return
    host = f"[{options.host}]" if ":" in options.host else options.host
    url, token, shown = f"http://{host}:{port}", "", ""
    if options.token_file is not None:
        token = f"$(cat {shlex.quote(str(options.token_file))})"
        shown = f"REWARDS_TOKEN={token} "
    elif os.environ.get("REWARDS_TOKEN"):
        token = "$REWARDS_TOKEN"
    header = f' -H "Authorization: Bearer {token}"' if token else ""
    item = shlex.quote(profiles[0].canaries[0].item.model_dump_json(exclude_defaults=True))
    print(f"serving at {url}; next:")
    print(f"  curl {url}/v1/score{header} -H 'Content-Type: application/json' -d {item}")
    print(f"  {shown}posttrain rewards probe {url}", flush=True)


@app.command()
def probe(url: Annotated[str, typer.Argument(metavar="URL")]) -> None:
    """Ask a service whether it is ready, what it serves, and how long canaries take."""
    from rewards.probing import probed

    findings = asyncio.run(probed(url))
    table = terminal.table_of("verifier", "runs", "version", "ready", "canaries", "slowest")
    for row in findings:
        took = "" if row.slowest_ms is None else f"{row.slowest_ms:.1f} ms"
        unasked = "not asked" if row.reason else "none known here"
        canaries = f"{row.passed} of {row.asked}" if row.asked else unasked
        ready = "no" if row.reason else "yes"
        table.add_row(row.name, row.runs, row.digest[:12], ready, canaries, took)
    terminal.show(table)
    if waiting := [row for row in findings if row.reason]:
        print(*(f"{row.name} is not ready: {row.reason}" for row in waiting), sep="\n", flush=True)
        raise ConnectionError(f"{url} is not ready; the reasons are above")
    if wrong := [row.name for row in findings if row.passed < row.asked]:
        raise RuntimeError(f"canaries of {', '.join(wrong)} have other verdicts than they should")
    print(f"next: posttrain rewards score ITEMS.jsonl --url {url}")


@app.command()
def score(
    file: Annotated[Path, typer.Argument(metavar="FILE", help="items, one JSON object a line")],
    url: Where = None,
    out: Annotated[Path | None, typer.Option(help="default: FILE with .verdicts.jsonl")] = None,
    ledger: Annotated[Path | None, typer.Option(help="folder of a ledger to append to")] = None,
    workers: Workers = None,
    patience: Patience = PATIENCE,
) -> None:
    """Score a file of items and write their verdicts."""
    from rewards import rescoring
    from rewards.ledger import verifiers

    places, total = dict[str, str](), 0
    for place, item in rescoring.placed_items(file):
        for name in verifiers(item):
            places.setdefault(name, place)
        total += 1
    target = _target(out or file.with_suffix(".verdicts.jsonl"), file, total)
    summary = rescoring.Summary()
    with (
        _endpoints(url, places, workers, patience) as endpoints,
        terminal.progress(total, patience) as advance,
    ):
        scoring = rescoring.score(
            endpoints, file, target, ledger, advance, summary, patience=patience
        )
        try:
            _run(scoring)
        except KeyboardInterrupt:
            done, where = sum(summary.counts.values()), ledger or rescoring.draft_of(target)
            told = f"interrupted: {done} of {total} scored; in {where}"
            raise RuntimeError(told) from None
    terminal.tell_summary(summary)
    print(f"verdicts: {target}")
    kept = f"reverify {ledger}" if ledger else f"score {file} --ledger LEDGER"
    again = "".join(f" --url {each}" for each in url or ())
    print(
        f"next: posttrain rewards {kept}{again}{'' if ledger else ' (then reverify)'}", flush=True
    )
    _raise_if_unscored(summary, total)


def _raise_if_unscored(summary: "Summary", total: int) -> None:
    """Raise if there are faults, or no scores."""
    if faults := summary.number("failed"):
        raise ConnectionError(f"{faults} of {total} items have no verdict; the reasons are above")
    if not summary.number("scored"):
        first = next(iter(summary.details.values()))
        raise RuntimeError(f"nothing is scored: {total} of {total} abstained; the first: {first}")


@app.command()
def reverify(
    ledger: Annotated[Path, typer.Argument(metavar="LEDGER", help="folder of a ledger")],
    url: Where = None,
    out: Annotated[Path | None, typer.Option(help="default: LEDGER/flips.jsonl")] = None,
    workers: Workers = None,
    patience: Patience = PATIENCE,
) -> None:
    """Score a ledger's items again and report the verdicts that flipped."""
    from rewards import rescoring
    from rewards.ledger import read, verifiers

    places, total, left_out = dict[str, str](), 0, 0
    for record in read(ledger):
        if not rescoring.can_flip(record):
            left_out += 1
            continue
        places.update(dict.fromkeys(verifiers(record.item), str(ledger)))
        total += 1
    target = _target(out or ledger / "flips.jsonl", ledger, total)
    with (
        _endpoints(url, places, workers, patience) as endpoints,
        terminal.progress(total, patience) as advance,
    ):
        found = _run(rescoring.reverify(endpoints, ledger, target, advance, patience=patience))
    terminal.show(terminal.flip_table(found))
    if left_out:
        print(f"{left_out} records are left out: their verifier was not served")
    if unknown := found.unknown.total():
        print(f"{unknown} records are neither: their verdict failed, then or now")
    if found.flips:
        raise RuntimeError(f"{len(found.flips)} of {total} verdicts flipped; see {target}")
    print(f"no verdict flipped, of {total}")


@app.command()
def audit(
    url: Annotated[str | None, typer.Option(help="endpoint; else a service is started")] = None,
    verifiers: Annotated[
        str | None, typer.Option(metavar="NAME,...", help="default: answer,math,constraints")
    ] = None,
    probes: Annotated[int, typer.Option(min=1, help="right and wrong items each")] = 400,
    seed: Annotated[int, typer.Option(min=0)] = 0,
    max_false_accept: Annotated[float | None, typer.Option(min=0, max=1, help="as 0.01")] = None,
    max_false_reject: Annotated[float | None, typer.Option(min=0, max=1, help="as 0.01")] = None,
    out: Annotated[Path | None, typer.Option(help="where to write the report, JSON")] = None,
) -> None:
    """Probe verifiers with items whose verdicts are known, and bound their error rates."""
    from rewards.audit import HostingFault, run
    from rewards.verifiers import SELF_CONTAINED

    names = SELF_CONTAINED if verifiers is None else verifiers.split(",")
    target = None if out is None else _writable(out)
    try:
        report = run(url, verifiers=names, probes=probes, seed=seed)
    except HostingFault as fault:
        raise ConnectionError(str(fault)) from None
    if target is not None:
        target.write_text(report.model_dump_json(indent=1))
    print(*report.lines(), sep="\n", flush=True)
    if exceeded := report.exceeded(
        max_false_accept=max_false_accept, max_false_reject=max_false_reject
    ):
        raise RuntimeError("; ".join(exceeded))
    for name, most in (("accepts", max_false_accept), ("rejects", max_false_reject)):
        if most is not None:
            print(f"holds: at most {100 * most:g} % false {name}")


def _target(path: Path, source: Path, total: int) -> Path:
    """`path`, if there is a folder for it, and anything in `source` to be done."""
    if not total:
        raise ValueError(f"{source} holds nothing to score")
    return _writable(path)


def _writable(path: Path) -> Path:
    if path.is_dir():
        raise ValueError(f"{path} is a folder; give --out a file")
    if not path.parent.is_dir():
        raise ValueError(f"{path.parent} is no folder; make it, or give another --out")
    return path


@contextmanager
def _endpoints(
    given: Sequence[str] | None, places: Mapping[str, str], workers: int | None, patience: float
) -> Iterator[Sequence[str]]:
    """The endpoints named, or that of a service of our own for as long as it is needed.

    `places` say where each verifier is asked for.
    """
    if given:
        from rewards.probing import unready

        for line in _run(unready(given)):
            sys.stderr.write(f"{line}; an item waits up to {patience:g} s (--patience)\n")
        yield given
        return
    from rewards.audit.hosting import HostingFault, rewards_service
    from rewards.verifiers import BUILT_IN

    for name, place in places.items():
        if name not in BUILT_IN:
            raise ValueError(
                f"{place}: {name}: not built in; start a service with --verifiers NAME=MODULE and "
                "give its --url"
            )
    try:
        with rewards_service(sorted(places), workers=workers or os.cpu_count() or 1) as url:
            yield [url]
    except HostingFault as fault:
        raise ConnectionError(str(fault)) from None


def _run(work: Coroutine[Any, Any, Any]) -> Any:
    return asyncio.run(work)


def main() -> NoReturn:
    """Run the command line; every fault becomes one clear line and an exit code."""
    try:
        code = app(standalone_mode=False)
    except WRONG_USE as fault:
        _end(_told_of_use(fault), 2)
    except Exception as fault:  # noqa: BLE001  # Told in one line, whatever it is.
        _end(*_told(fault))
    _end("interrupted" if code == INTERRUPTED else "", 1 if code == INTERRUPTED else code or 0)


def _told(fault: Exception) -> tuple[str, int]:
    """The line and the exit code of a fault."""
    if isinstance(fault, ModuleNotFoundError):
        return f"there is no module {fault.name} here; this needs pip install '.[rewards]'", 2
    if isinstance(fault, OSError) and fault.errno in UNUSABLE:
        return f"{fault.filename} cannot be used: {fault.strerror}", 2
    for kind, code in ((OSError, 4), (ValueError, 2), (RuntimeError, 1)):
        if isinstance(fault, kind):
            return str(fault), code
    return f"internal error: {fault.__class__.__name__}: {fault}", 4


def _told_of_use(fault: Any) -> str:
    """Typer's message; nothing where, for want of any argument, it has shown the help."""
    message = " ".join(fault.format_message().split())
    return f"{message} (see --help)" if message else ""


def _end(message: str, code: int) -> NoReturn:
    if message:
        sys.stderr.write(f"error: {message}\n")
    sys.exit(code)
