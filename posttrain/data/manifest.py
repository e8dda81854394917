"""Manifests: what a data set consists of, by content.

Always holds: a manifest lists every file of its data set with its sha256; files are the data set
if all of them are there, no other is, and each has its digest. Nothing is found by a pattern.
"""

import json
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pydantic import BaseModel, ConfigDict, ValidationError

from posttrain.data.checks.rows import Row, parts, texts
from posttrain.data.shards import Shard, Shards
from posttrain.store import write_durably

if TYPE_CHECKING:
    from posttrain.data.chat import ChatFormat

FILE = "manifest.json"
EVERY = 1000
"""Rows between two reports."""

Report = Callable[[int], None]
"""Called now and then with the number of rows done."""


class _Model(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class Split(_Model):
    """The rows of one split; `tokens`, and those the loss counts, if a tokenizer was given.

    `sha256` is that of all its lines, where a stage wrote them: it does not tell how they are cut.
    """

    shards: tuple[Shard, ...]
    rows: int
    sha256: str | None = None
    tokens: int | None = None
    optimised_tokens: int | None = None


class Manifest(_Model):
    """A data set: its splits, who answers for it, what counted its tokens, what it came from."""

    splits: dict[str, Split]
    licence: str | None = None
    owner: str | None = None
    tokenizer_sha256: str | None = None
    template_sha256: str | None = None
    sources: dict[str, tuple[Shard, ...]] = {}

    def figures(self) -> dict[str, float]:
        """What it counts, by split, as metrics of a stage."""
        return {
            f"{key}.{name}": float(count)
            for name, split in self.splits.items()
            for key in ("rows", "tokens", "optimised_tokens")
            if (count := getattr(split, key)) is not None
        }


class Frozen(_Model):
    """The files of one data entry: as the recipe named them, and what they were."""

    files: dict[str, tuple[str, ...]]
    splits: dict[str, Split]


class Lock(_Model):
    """What the files of a recipe's data entries were when they were frozen."""

    data: dict[str, Frozen]


def differences(wanted: Iterable[Shard], found: Iterable[Shard]) -> Iterator[str]:
    """A line for each file that is missing, extra or changed."""
    before = {shard.file: shard for shard in wanted}
    after = {shard.file: shard for shard in found}
    for name in dict.fromkeys([*before, *after]):
        old, new = before.get(name), after.get(name)
        if old is None:
            yield f"extra {name}"
        elif new is None:
            yield f"missing {name}"
        elif old != new:
            yield (
                f"changed {name} (sha256 {old.sha256[:12]} -> {new.sha256[:12]}, "
                f"{old.bytes:,} -> {new.bytes:,} bytes)"
            )


def lock_of(recipe: Path) -> Path:
    """Where the lock of a recipe file lies: beside it."""
    return recipe.with_name(f"{recipe.stem}.frozen.json")


def read_lock(recipe: Path) -> Lock | None:
    """The lock of a recipe file, if it has one; ValueError if that is damaged."""
    path = lock_of(recipe)
    with suppress(FileNotFoundError):
        try:
            return Lock.model_validate_json(path.read_bytes())
        except ValidationError as broken:
            raise ValueError(
                f"{path} is damaged; restore it, or remove it and run: "
                f"posttrain data freeze {recipe}"
            ) from broken
    return None


def write_lock(recipe: Path, lock: Lock) -> Path:
    """Replace the lock of a recipe file."""
    path = lock_of(recipe)
    write_durably(path, lock.model_dump_json(indent=1, exclude_defaults=True) + "\n")
    return path


def read(folder: Path) -> Manifest:
    """The manifest of a data artifact; ValueError if it has none or it is damaged."""
    return read_file(folder / FILE)


def read_file(path: Path) -> Manifest:
    """The manifest in a file; ValueError if it is none."""
    try:
        return Manifest.model_validate_json(path.read_bytes())
    except FileNotFoundError:
        raise ValueError(f"there is no manifest {path}") from None
    except ValidationError as broken:
        raise ValueError(f"{path} is no manifest, or was damaged") from broken


def write(
    output: Path,
    splits: Mapping[str, Iterable[Mapping[str, Any] | Row]],
    *,
    chat: "ChatFormat | None" = None,
    report: Report = lambda rows: None,
    **about: Any,
) -> Manifest:
    """Write each split in its shards, and the manifest; `about` are fields of `Manifest`.

    With `chat`, tokens are counted: ValueError names a row that cannot be rendered, by the place
    it is from if it has one.
    """
    written: dict[str, Split] = {}
    done = 0
    for name, rows in splits.items():
        written[name] = _write(output, name, rows, chat, partial(_after, report, done))
        done += written[name].rows
    manifest = Manifest(splits=written, **about, **counter_of(chat))
    (output / FILE).write_text(manifest.model_dump_json(indent=1), encoding="utf-8")
    return manifest


def _after(report: Report, before: int, rows: int) -> None:
    report(before + rows)


def _write(
    output: Path,
    name: str,
    rows: Iterable[Mapping[str, Any] | Row],
    chat: "ChatFormat | None",
    report: Report,
) -> Split:
    count = 0
    counts = Tokens(chat)
    with Shards(output, name) as shards:
        for count, row in enumerate(rows, 1):
            content, place = _placed(row, f"{name}.jsonl: row {count}")
            shards.add(json.dumps(content, ensure_ascii=False).encode() + b"\n")
            counts.add(content, place)
            if count % EVERY == 0:
                report(count)
    report(count)
    return Split(shards=shards.written, rows=count, sha256=shards.sha256, **counts.told())


def _placed(row: Mapping[str, Any] | Row, here: str) -> tuple[Mapping[str, Any], str]:
    return (row.content, str(row.place)) if isinstance(row, Row) else (row, here)


class Tokens:
    """Counts the tokens of rows, if there is a chat format to render them with."""

    def __init__(self, chat: "ChatFormat | None") -> None:
        self._chat = chat
        self._tokens = self._targets = 0

    def add(self, row: Mapping[str, Any], place: str) -> None:
        """Count a row; ValueError, with its place, if it cannot be rendered."""
        if self._chat is None:
            return
        from posttrain.data.rendering import render

        try:
            rendered = render(self._chat, row)
        except (ValueError, KeyError) as broken:
            field = f"{found}: " if (found := self._field(row)) else ""
            raise ValueError(f"{place}: {field}cannot be rendered: {broken}") from broken
        self._tokens += len(rendered.ids)
        self._targets += sum(rendered.mask)

    def _field(self, row: Mapping[str, Any]) -> str | None:
        """The field whose text may not be said, or for whose image or sound there is no token."""
        assert self._chat is not None
        for text in texts(row):
            try:
                self._chat.encode(text.text)
            except ValueError:
                return text.field
        for field, part in parts(row):
            alone = {"role": "user", "content": [part]}
            try:
                self._chat.render({"messages": [alone], "tools": [], "deliberation": False})
            except ValueError:
                return field
        return None

    def told(self) -> dict[str, int]:
        """The fields of `Split` that hold the counts; none if nothing was counted."""
        if self._chat is None:
            return {}
        return {"tokens": self._tokens, "optimised_tokens": self._targets}


def counter_of(chat: "ChatFormat | None") -> dict[str, str]:
    """The fields of `Manifest` that say what counted the tokens."""
    if chat is None:
        return {}
    from posttrain.data.tokenizer import digests

    return digests(chat.tokenizer)
