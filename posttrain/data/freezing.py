"""Freezing: files read to the end, every row looked at, and what they were written down.

Always holds: nothing is written unless every row can be used; what was frozen before is replaced
only on demand, and the differences are told.
"""

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from posttrain.data import manifest
from posttrain.data.manifest import EVERY, Frozen, Lock, Manifest, Split, Tokens, differences
from posttrain.data.sources import Files, sound
from posttrain.store import write_durably

if TYPE_CHECKING:
    from posttrain.data.chat import ChatFormat

Splits = Mapping[str, Files]
Report = Callable[[str, int], None]
"""Called now and then with the name of a data set and the number of its rows read."""


def freeze_recipe(
    recipe: Path, entries: Mapping[str, Splits], *, replace: bool, report: Report
) -> Lock:
    """Write the lock of a recipe whose `data` has these entries; ValueError if it may not be."""
    before = manifest.read_lock(recipe)
    data = {}
    for name, splits in entries.items():
        found = _splits(splits, None, report)
        named = {split: tuple(files.paths) for split, files in splits.items()}
        data[name] = Frozen(files=named, splits=found)
        if before and name in before.data and not replace:
            _same(name, before.data[name].splits, found)
    lock = Lock(data=data)
    manifest.write_lock(recipe, lock)
    return lock


def freeze_files(
    files: Files, target: Path, *, licence: str, owner: str, chat: "ChatFormat | None",
    replace: bool, report: Report,
) -> Manifest:  # fmt: skip
    """Write the manifest of training files to `target`; ValueError if it may not be."""
    found = Manifest(
        splits=_splits({"train": files}, chat, report), licence=licence, owner=owner,
        **manifest.counter_of(chat),
    )  # fmt: skip
    if target.exists() and not replace:
        _same(files.dataset, manifest.read_file(target).splits, found.splits)
    write_durably(target, found.model_dump_json(indent=1, exclude_none=True) + "\n")
    return found


def _same(name: str, before: Mapping[str, Split], after: Mapping[str, Split]) -> None:
    """ValueError with the differences, if there are any."""
    old, new = ([shard for split in each.values() for shard in split.shards]
                for each in (before, after))  # fmt: skip
    if told := "; ".join(differences(old, new)):
        raise ValueError(f"{name} is not what was frozen: {told}; --replace accepts it as it is")


def _splits(splits: Splits, chat: "ChatFormat | None", report: Report) -> dict[str, Split]:
    return {name: _split(files, chat, report) for name, files in splits.items()}


def _split(files: Files, chat: "ChatFormat | None", report: Report) -> Split:
    shards, tokens, count = tuple(files.shards()), Tokens(chat), 0
    for count, row in enumerate(sound(files.rows()), 1):
        tokens.add(row.content, str(row.place))
        if count % EVERY == 0:
            report(files.dataset, count)
    if not count:
        raise ValueError(f"{files.dataset}: {', '.join(files.paths)[:200]} hold no rows")
    report(files.dataset, count)
    return Split(shards=shards, rows=count, **tokens.told())
