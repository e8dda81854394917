"""Rows with their place, and the texts in them: what every data check reads.

Always holds: a row that cannot be read is a `Fault` with its place, never left out; a row is
known by its place, since ids may repeat.
"""

import json
import math
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

Content = Mapping[str, Any]

_SPEAKERS = {
    "messages": "", "tools": "system", "prompt": "user", "continuation": "assistant",
    "text": "document",
}  # fmt: skip
"""Fields a model reads, and who speaks there; of messages the role tells."""

_NAMES = frozenset({"role", "name", "type", "id"})
"""Keys whose values name things: no text, except among the arguments of a call."""


class Place(NamedTuple):
    """Where a row lies: `number` counts from 1 within `file`."""

    dataset: str
    file: str
    number: int

    def __str__(self) -> str:
        return f"{self.file}: row {self.number}"


@dataclass(frozen=True, slots=True)
class Row:
    """A row as it was read."""

    place: Place
    content: Content

    @property
    def id(self) -> str | None:
        """Its own `id`, if it has one."""
        found = self.content.get("id")
        return None if found is None else str(found)


@dataclass(frozen=True, slots=True)
class Fault:
    """A row that cannot be read; `field` is empty where no field is to blame."""

    place: Place
    field: str
    problem: str

    def __str__(self) -> str:
        where = f"{self.place}: {self.field}" if self.field else f"{self.place}"
        return f"{where}: {self.problem}; repair or remove the row"


class Text(NamedTuple):
    """A text in a row: the path of its field, and who speaks (tool outputs: `tool`)."""

    field: str
    speaker: str
    text: str


@dataclass(frozen=True)
class Dataset:
    """Rows that can be read again and again; `digest` is that of the bytes behind them."""

    name: str
    digest: str
    read: Callable[[], Iterator[Row | Fault]]
    licence: str | None = None

    def rows(self) -> Iterator[Row]:
        """The rows; ValueError at the first that cannot be read, naming file, row and field."""
        for row in self.read():
            if isinstance(row, Fault):
                raise ValueError(str(row))
            yield row


def read_jsonl(path: Path, dataset: str, name: str | None = None) -> Iterator[Row | Fault]:
    """The rows of a file of JSON lines, called `name` in messages (default: its own name)."""
    with path.open("rb") as lines:
        for number, line in enumerate(lines, 1):
            yield _read(line.rstrip(b"\r\n"), Place(dataset, name or path.name, number))


def _read(line: bytes, place: Place) -> Row | Fault:
    try:
        content = _JSON.decode(line.decode("utf-8"))
    except UnicodeDecodeError as broken:
        return Fault(place, "", f"is not UTF-8 at byte {broken.start + 1}")
    except json.JSONDecodeError as broken:
        return Fault(place, "", f"is not JSON at column {broken.colno}: {broken.msg}")
    except (ValueError, RecursionError) as broken:
        return Fault(place, "", f"is not JSON: {broken}")
    if not isinstance(content, dict):
        return Fault(place, "", f"must be a JSON object, is {_kind(content)}")
    row = Row(place, content)
    # Only an escape can bring in half of a surrogate pair: no tokenizer takes that.
    if b"\\ud" in line.lower():
        for text in texts(content):
            if any("\ud800" <= character <= "\udfff" for character in text.text):
                return Fault(place, text.field, "holds half of a surrogate pair")
    return row


def _refused(constant: str) -> None:
    raise ValueError(f"{constant} is no number of JSON")


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """An object; of a key that comes twice one value would be lost without a word."""
    content = dict(pairs)
    if len(content) != len(pairs):
        names = [name for name, _ in pairs]
        twice = next(name for name in names if names.count(name) > 1)
        raise ValueError(f"key {twice[:60]!r} comes twice")
    return content


def _finite(digits: str) -> float:
    """A number; one that overflows would be written as `Infinity`, which is not JSON."""
    if math.isinf(value := float(digits)):
        raise ValueError(f"{digits[:60]} is beyond what a number can be")
    return value


_JSON = json.JSONDecoder(object_pairs_hook=_unique, parse_constant=_refused, parse_float=_finite)


def texts(content: Content) -> Iterator[Text]:
    """Every text of a row that a model may read, in order, names of roles and tools left out."""
    for key, speaker in _SPEAKERS.items():
        if key == "messages":
            yield from _of_messages(content.get(key))
        elif key in content:
            yield from _walk(content[key], key, speaker)


def _of_messages(messages: Any) -> Iterator[Text]:
    for index, message in enumerate(messages if isinstance(messages, list | tuple) else ()):
        if not isinstance(message, Mapping):
            continue
        role = str(message.get("role"))
        for key, value, named in _fields(message, _NAMES):
            speaker = "tool" if key == "tool_outputs" else role
            yield from _walk(value, f"messages[{index}].{key}", speaker, named)


def _walk(value: Any, path: str, speaker: str, names: frozenset[str] = _NAMES) -> Iterator[Text]:
    if isinstance(value, str):
        yield Text(path, speaker, value)
    elif isinstance(value, Mapping):
        for key, inner, named in _fields(value, names):
            yield from _walk(inner, f"{path}.{key}", speaker, named)
    elif isinstance(value, list | tuple):
        for index, inner in enumerate(value):
            yield from _walk(inner, f"{path}[{index}]", speaker, names)


def _fields(
    value: Mapping[str, Any], names: frozenset[str]
) -> Iterator[tuple[str, Any, frozenset[str]]]:
    """The fields that may hold text, and what is a name in each: in arguments, nothing is."""
    for key, inner in value.items():
        if key not in names:
            yield key, inner, frozenset() if key == "arguments" else names


def parts(content: Content) -> Iterator[tuple[str, Mapping[str, Any]]]:
    """The parts of messages that are written in parts, images and sounds too, by their field."""
    for number, message in enumerate(content.get("messages") or ()):
        said = message.get("content")
        whole = isinstance(said, Mapping)
        listed = said.get("parts") if whole else said
        field = f"messages[{number}].content{'.parts' * whole}"
        for index, part in enumerate(listed if isinstance(listed, list) else ()):
            yield f"{field}[{index}]", part


def mapped(content: Content, change: Callable[[str], str]) -> dict[str, Any]:
    """A copy of the row in which `change` was applied to every one of its `texts`."""
    return {
        key: _changed(value, change) if key in _SPEAKERS else value
        for key, value in content.items()
    }


def _changed(value: Any, change: Callable[[str], str], names: frozenset[str] = _NAMES) -> Any:
    if isinstance(value, str):
        return change(value)
    if isinstance(value, Mapping):
        fields = {key: _changed(v, change, named) for key, v, named in _fields(value, names)}
        return {key: fields.get(key, inner) for key, inner in value.items()}
    if isinstance(value, list | tuple):
        return [_changed(inner, change, names) for inner in value]
    return value


def _kind(value: Any) -> str:
    names = {list: "an array", str: "a string", bool: "a boolean", type(None): "null"}
    return names.get(type(value), "a number")
