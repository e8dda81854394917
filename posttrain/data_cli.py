"""The `posttrain data` commands: parse, call and print. What they do is done in `posttrain.data`.

Only what a command needs is imported, for `posttrain` carries these commands too.
"""

import json
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.console import Console

if TYPE_CHECKING:
    from posttrain.data.chat import ChatFormat
    from posttrain.data.checks.report import Outcome
    from posttrain.data.checks.rows import Dataset, Fault, Row
    from posttrain.data.manifest import Split

app = typer.Typer(
    no_args_is_help=True, add_completion=False, pretty_exceptions_enable=False,
    help="Freeze, lint and show data.",
)  # fmt: skip

_WIDE = 10_000
"""Columns where no terminal shows the output: a line stays a line."""

console = Console(markup=False, emoji=False, highlight=False)
if not console.is_terminal:
    console.width = _WIDE

Where = Annotated[
    Path, typer.Option("--store", envvar="POSTTRAIN_STORE", help="folder of the artifact store")
]
HERE = Path("store")
Tokenizer = Annotated[
    str | None, typer.Option(help="folder of a tokenizer, or run/stage@number of one")
]
Replace = Annotated[bool, typer.Option("--replace", help="accept what differs from before")]
Machine = Annotated[bool, typer.Option("--json", help="print JSON")]


@app.command()
def freeze(
    what: Annotated[list[Path], typer.Argument(metavar="RECIPE|FILES...")],
    to: Annotated[Path | None, typer.Option(help="of FILES: where the manifest goes")] = None,
    licence: Annotated[str | None, typer.Option(help="of FILES, e.g. CC-BY-4.0")] = None,
    owner: Annotated[str | None, typer.Option(help="of FILES: who answers for them")] = None,
    tokenizer: Tokenizer = None,
    replace: Replace = False,
    store: Where = HERE,
) -> None:
    """Read files to the end and write down what they are; a recipe's stages read nothing else."""
    if len(what) == 1 and what[0].suffix in (".yaml", ".yml"):
        if to or licence or owner or tokenizer:
            raise ValueError("a recipe states licence, owner and tokenizer; give it alone")
        _freeze_recipe(what[0], replace)
        return
    if not (to and licence and owner):
        raise ValueError("files need --to MANIFEST, --licence and --owner")
    from posttrain.data.freezing import freeze_files
    from posttrain.data.sources import Files

    files = Files(to.stem, Path(), [str(path) for path in what])
    with _counting() as report:
        found = freeze_files(
            files, to, licence=licence, owner=owner, chat=_chat(tokenizer, store),
            replace=replace, report=report,
        )  # fmt: skip
    for name, split in found.splits.items():
        console.print(_told(to.stem, name, split))
    console.print(f"manifest: {to}\nnext: posttrain data show {to}")


def _freeze_recipe(recipe: Path, replace: bool) -> None:
    from posttrain.data.freezing import freeze_recipe
    from posttrain.data.manifest import lock_of
    from posttrain.recipe import load
    from posttrain.stages import files

    stages = load(recipe).stages
    entries = {
        name: stage.config.splits()
        for name, stage in stages.items()
        if isinstance(stage.config, files.Config)
    }
    if not entries:
        raise ValueError(f"{recipe} names no files, so there is nothing to freeze")
    with _counting() as report:
        lock = freeze_recipe(recipe, entries, replace=replace, report=report)
    for name, frozen in lock.data.items():
        for split, found in frozen.splits.items():
            console.print(_told(name, split, found))
    console.print(f"lock: {lock_of(recipe)} (keep it with the recipe)")
    console.print(f"next: posttrain plan {recipe}")


@app.command()
def lint(
    data: Annotated[list[str], typer.Argument(metavar="DATA...", help="files or run/stage@number")],
    tokenizer: Tokenizer = None,
    page: Annotated[Path | None, typer.Option(help="write a page of sampled rows (HTML)")] = None,
    rows: Annotated[int, typer.Option(min=1, help="rows on the page")] = 20,
    seed: Annotated[int, typer.Option(help="of the sample")] = 0,
    machine: Machine = False,
    store: Where = HERE,
) -> None:
    """Look at how rows come out of a tokenizer; exit code 2 if they are not fit to train on."""
    from posttrain.data.checks import lint as check
    from posttrain.data.checks.inputs import Inputs

    chat = _chat(tokenizer, store)
    if chat is None:
        raise ValueError("name a --tokenizer: rows are looked at as its tokens")
    datasets = [_dataset(each, store) for each in data]
    with _counting() as report:
        watched = [_watched(dataset, report) for dataset in datasets]
        outcome = check.run(Inputs(watched, chat=chat), check.Parameters())
    if page is not None:
        _write_page(page, chat, datasets, rows, seed)
    if machine:
        sys.stdout.write(outcome.report.model_dump_json(indent=1) + "\n")
    else:
        _print_report(outcome)
        console.print(f"page: {page}" if page else "next: --page sample.html shows rows as tokens")
    outcome.require()


@app.command()
def show(
    data: Annotated[str, typer.Argument(metavar="MANIFEST|ARTIFACT")],
    machine: Machine = False,
    store: Where = HERE,
) -> None:
    """Show what a data set consists of, and what the check that made it found."""
    from posttrain.data import manifest

    folder = None if Path(data).is_file() else _artifact(data, store)
    found = manifest.read(folder) if folder else manifest.read_file(Path(data))
    report = folder / "report.json" if folder else None
    checked = json.loads(report.read_bytes()) if report and report.is_file() else None
    if machine:
        whole = found.model_dump(exclude_none=True) | ({"report": checked} if checked else {})
        sys.stdout.write(json.dumps(whole, indent=1) + "\n")
        return
    console.print(
        f"{data}: licence {found.licence or 'none stated'}, owner {found.owner or 'none'}"
    )
    for name, split in found.splits.items():
        console.print(_told("", name, split))
        for shard in [*split.shards, *found.sources.get(name, ())]:
            console.print(f"  {shard.sha256[:12]}  {shard.bytes:>14,} bytes  {shard.file}")
    for name in ("tokenizer_sha256", "template_sha256"):
        if digest := getattr(found, name):
            console.print(f"{name.partition('_')[0]} {digest[:12]}")
    if checked:
        for name, tally in checked["datasets"].items():
            told = f"{tally['removed']:,} of {tally['rows']:,} rows removed {tally['reasons']}"
            console.print(f"check {checked['check']}: {name}: {told}")


def _told(dataset: str, name: str, split: "Split") -> str:
    counts = f"{split.rows:,} rows in {len(split.shards)} file{'s' * (len(split.shards) != 1)}"
    if split.tokens is not None:
        counts += f", {split.tokens:,} tokens, {split.optimised_tokens:,} optimised"
    return f"{dataset}{'.' * bool(dataset)}{name}: {counts}"


def _print_report(outcome: "Outcome") -> None:
    report = outcome.report
    for name, tally in report.datasets.items():
        share = report.figures.get(f"target_share.{name}", 0.0)
        console.print(f"{name}: {tally.rows:,} rows, {share:.1%} of the tokens are targets")
        for reason, count in tally.reasons.most_common():
            console.print(f"  {reason}: {count:,} rows")
    for example in report.examples:
        field = f": {example.field}" * bool(example.field)
        place = f"{example.file}: row {example.row}{field}"
        console.print(f"  {example.reason}  {place}: {example.detail}")


def _write_page(
    page: Path, chat: "ChatFormat", datasets: "Sequence[Dataset]", rows: int, seed: int
) -> None:
    from posttrain.data.checks import sample_page

    every = (row for dataset in datasets for row in dataset.read())
    samples = sample_page.sampled(chat, every, rows, seed)
    title = ", ".join(dataset.name for dataset in datasets)
    page.write_text(sample_page.page(chat, samples, title), encoding="utf-8")


def _dataset(data: str, store: Path) -> "Dataset":
    from posttrain.data import splits
    from posttrain.data.checks.rows import Dataset
    from posttrain.data.sources import Files

    if Path(data).exists():
        files = Files(Path(data).name, Path(), [data])
    else:
        folder = _artifact(data, store)
        files = Files(data, folder, [each.name for each in splits.files(folder / "train.jsonl")])
    return Dataset(files.dataset, "", files.rows)


def _watched(dataset: "Dataset", report: Callable[[str, int], None]) -> "Dataset":
    from dataclasses import replace

    from posttrain.data.manifest import EVERY

    def read() -> "Iterator[Row | Fault]":
        for count, row in enumerate(dataset.read(), 1):
            if count % EVERY == 0:
                report(dataset.name, count)
            yield row

    return replace(dataset, read=read)


def _chat(tokenizer: str | None, store: Path) -> "ChatFormat | None":
    if tokenizer is None:
        return None
    folder = Path(tokenizer) if Path(tokenizer).is_dir() else _artifact(tokenizer, store)
    from posttrain.data.tokenizer import chat_format

    return chat_format(folder)


def _artifact(address: str, store: Path) -> Path:
    """The folder of an artifact, verified; ValueError if `address` is neither that nor a path."""
    from posttrain.store import Store

    if "@" not in address:
        raise ValueError(f"there is no file {address}; name one, or an artifact: run/stage@number")
    found = Store(store).get(address)
    found.verify()
    return found.path


@contextmanager
def _counting() -> Iterator[Callable[[str, int], None]]:
    """Shows how many rows were read, on a terminal."""
    with console.status("reading") as status:
        yield lambda name, rows: status.update(f"{name}: {rows:,} rows read")
