"""The files behind a data set: which they are, and the rows in them.

Always holds: a row is given as training needs it, or as a `Fault` that names file, row and field.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from posttrain.data import formats
from posttrain.data.checks.rows import Fault, Row
from posttrain.data.checks.shape import problems
from posttrain.data.conversation import function
from posttrain.data.shards import Shard

_TOLD = 10


@dataclass(frozen=True)
class Files:
    """Files of one split as they are named, below `folder`, and their format if one is stated."""

    dataset: str
    folder: Path
    paths: Sequence[str]
    format: formats.Format | None = None

    def shards(self) -> list[Shard]:
        """Every file with its digest; ValueError names one that is not there."""
        return [
            Shard.of(file, name)
            for path in self.paths
            for file, name in self._files(path)
        ]  # fmt: skip

    def rows(self) -> Iterator[Row | Fault]:
        """All rows, file after file."""
        for path in self.paths:
            module = formats.module(self._format(path))
            for row in module.read(self.folder / path, self.dataset, path):
                yield row if isinstance(row, Fault) else shaped(row)

    def _format(self, path: str) -> formats.Format:
        return self.format or formats.named(self.folder / path)

    def _files(self, path: str) -> Iterator[tuple[Path, str]]:
        """Each file behind `path`, and what it is called: its name alone may occur twice."""
        whole = self.folder / path
        if not whole.exists() and not whole.with_suffix(".idx").exists():
            raise ValueError(f"{self.dataset}: there is no {whole}")
        for file in formats.module(self._format(path)).files(whole):
            name = f"{path}/{file.name}" if whole.is_dir() else str(Path(path).with_name(file.name))
            if not file.is_file():
                raise ValueError(f"{self.dataset}: there is no {file}")
            yield file, name


def shaped(row: Row) -> Row | Fault:
    """The row with what a conversation may leave unsaid; a Fault if it is none of the known.

    Where it does not say so, it offers no tools, and deliberates if one of its answers thinks.
    Tools come out with name, description and parameters side by side.
    """
    content = row.content
    if "messages" in content:
        content = {**content, "tools": _unwrapped(content.get("tools"))}
        if content.get("deliberation") is None:
            content = {**content, "deliberation": _thinks(content["messages"])}
    for field, problem in problems(content):
        return Fault(row.place, field, problem)
    return Row(row.place, content)


def _unwrapped(tools: Any) -> Any:
    """Tools without what the OpenAI API wraps them in, so that all who read rows find a name."""
    if not isinstance(tools, list):
        return [] if tools is None else tools
    return [function(tool) if isinstance(tool, Mapping) else tool for tool in tools]


def _thinks(messages: Any) -> bool:
    return isinstance(messages, list) and any(
        message.get("thoughts") is not None or "thoughts" in _kinds(message.get("content"))
        for message in messages
        if isinstance(message, Mapping)
    )


def _kinds(content: Any) -> list[Any]:
    """The types of the blocks of an assistant's message, if it is written in blocks."""
    blocks = content.get("blocks") if isinstance(content, Mapping) else None
    listed = blocks if isinstance(blocks, list) else []
    return [block.get("type") for block in listed if isinstance(block, Mapping)]


def sound(rows: Iterable[Row | Fault]) -> Iterator[Row]:
    """The rows; ValueError tells of all that are faulty, once all were read."""
    faults: list[str] = []
    count = 0
    for row in rows:
        if isinstance(row, Row):
            yield row
            continue
        count += 1
        faults += [str(row)] if count <= _TOLD else []
    if count:
        more = [f"and {count - _TOLD:,} more rows"] if count > _TOLD else []
        raise ValueError("\n".join([*faults, *more]))
