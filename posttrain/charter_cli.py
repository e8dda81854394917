"""The `posttrain charter` commands: parse, call and print."""

import sys
from collections.abc import Callable
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console

app = typer.Typer(
    no_args_is_help=True, add_completion=False, pretty_exceptions_enable=False,
    help="Check charters.",
)  # fmt: skip
console = Console(markup=False, emoji=False, highlight=False, soft_wrap=True)


@app.callback()
def _options() -> None:
    """Check charters."""


@app.command()
def lint(
    charters: Annotated[list[Path], typer.Argument(metavar="FILES...")],
    judge_context: Annotated[int, typer.Option(min=1, help="tokens the judge reads")] = 16384,
    room: Annotated[int, typer.Option(min=0, help="tokens of it for prompt and response")] = 8192,
    tokenizer: Annotated[Path | None, typer.Option(help="folder of the judge's")] = None,
) -> None:
    """Check articles' ids and texts, and that the judge has room for the whole charter."""
    count = _counter(tokenizer) if tokenizer else None
    found = [fault for path in charters for fault in _faults(path, judge_context, room, count)]
    if found:
        sys.exit(1)


def _faults(path: Path, context: int, room: int, count: Callable[[str], int] | None) -> list[str]:
    from posttrain.charter import lint as rules
    from posttrain.charter import read

    try:
        charter = read(_text(path))
        faults = rules.faults(charter, context, room, count)
    except ValueError as fault:
        charter, faults = None, [str(fault)]
    for told in faults:
        console.print(f"{path}: {told}")
    if charter and not faults:
        found = f"{charter.name} {charter.version}, {len(charter.articles)} articles"
        console.print(f"{path}: {found}, sha256 {charter.sha256}")
    return faults


def _text(path: Path) -> str:
    try:
        return path.read_bytes().decode("utf-8")
    except UnicodeDecodeError:
        raise ValueError("it is not UTF-8") from None


def _counter(folder: Path) -> Callable[[str], int]:
    from transformers import AutoTokenizer

    tokenizer = AutoTokenizer.from_pretrained(folder, local_files_only=True)
    return lambda text: len(tokenizer.encode(text, add_special_tokens=False))
