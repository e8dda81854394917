"""A YAML document as plain values, and the place each of them was written at.

Only the plain part of YAML is read: maps with text as keys, lists, text, finite numbers, true,
false, null, and anchors with their aliases. Tags, merge keys and dates mean nothing here, so what a
file says is what stands in it.
"""

import copy
import math
import re
from collections.abc import Callable, Iterator
from typing import Any

from ruamel.yaml import YAML
from ruamel.yaml.error import MarkedYAMLError, YAMLError
from ruamel.yaml.events import (
    AliasEvent,
    DocumentStartEvent,
    MappingEndEvent,
    MappingStartEvent,
    ScalarEvent,
    SequenceEndEvent,
    SequenceStartEvent,
    StreamEndEvent,
)

Location = tuple[str | int, ...]

_VALUES = 20_000
_DEPTH = 40
_KEY_LENGTH = 200
_NULL = ("", "~", "null", "Null", "NULL")
_TRUTH = {word: truth for truth in (True, False) for word in (str(truth), str(truth).lower())}
_WHOLE = re.compile(r"[-+]?[0-9]+|0o[0-7]+|0x[0-9a-fA-F]+")
_FRACTION = re.compile(r"[-+]?(\.[0-9]+|[0-9]+(\.[0-9]*)?)([eE][-+]?[0-9]+)?")
_ENDLESS = re.compile(r"[-+]?\.(inf|Inf|INF)|\.(nan|NaN|NAN)")


class Document:
    """Reads one document. `place` turns a line (from 1) into words; `places` fills on the way."""

    def __init__(self, text: str, place: Callable[[int], str]) -> None:
        self._text = text
        self._place = place
        self._anchors: dict[str, tuple[Any, int]] = {}
        self._size = 0
        self.places: dict[Location, str] = {}

    def read(self) -> Any:
        """The document's value (None if it is empty); ValueError, with its place, if it is wrong.

        Strings read are printable, keys not empty, whole numbers within 64 bits, and all of it is
        bounded in size and depth, however its aliases multiply.
        """
        try:
            return self._document(YAML(typ="safe", pure=True).parse(self._text))
        except MarkedYAMLError as fault:
            mark = fault.problem_mark or fault.context_mark
            problem = " ".join(str(fault.problem).replace(r"'\x00'", "the end").split())
            raise self._fault(mark.line if mark else 0, f"not valid YAML: {problem}") from fault
        except YAMLError as fault:
            line = self._text.count("\n", 0, getattr(fault, "position", 0))
            raise self._fault(line, "holds a character that YAML forbids; remove it") from fault

    def _document(self, events: Iterator[Any]) -> Any:
        value = None
        begun = False
        for event in events:
            if isinstance(event, DocumentStartEvent):
                if begun:
                    raise self._fault(_line(event), "a second document begins; write one only")
                begun = True
                value = self._value(next(events), events, ())
            elif isinstance(event, StreamEndEvent):
                break
        return value

    def _value(self, event: Any, events: Iterator[Any], at: Location) -> Any:
        if isinstance(event, AliasEvent):
            return self._alias(event)
        if event.tag is not None:
            raise self._fault(_line(event), f"tag {event.tag} has no meaning here; remove it")
        before = self._size
        self._grow(1, event)
        if len(at) > _DEPTH:
            raise self._fault(_line(event), f"nested more than {_DEPTH} deep")
        if isinstance(event, MappingStartEvent):
            value: Any = self._map(events, at)
        elif isinstance(event, SequenceStartEvent):
            value = self._list(events, at)
        else:
            value = self._scalar(event)
        if event.anchor:
            self._anchors[event.anchor] = (value, self._size - before)
        return value

    def _map(self, events: Iterator[Any], at: Location) -> dict[str, Any]:
        found: dict[str, Any] = {}
        while not isinstance(event := next(events), MappingEndEvent):
            key = self._key(event)
            place = self._place(_line(event) + 1)
            if key in found:
                first = self.places[(*at, key)]
                raise ValueError(f"{place}: duplicate key {key!r}; it stands at {first} already")
            self.places[(*at, key)] = place
            found[key] = self._value(next(events), events, (*at, key))
        return found

    def _list(self, events: Iterator[Any], at: Location) -> list[Any]:
        found: list[Any] = []
        while not isinstance(event := next(events), SequenceEndEvent):
            where = (*at, len(found))
            self.places[where] = self._place(_line(event) + 1)
            found.append(self._value(event, events, where))
        return found

    def _key(self, event: Any) -> str:
        if not isinstance(event, ScalarEvent) or event.tag is not None or event.anchor:
            raise self._fault(_line(event), "a key is plain text")
        key = str(event.value)
        if key == "<<" and event.style is None:
            raise self._fault(_line(event), "merge keys are not supported; write the values out")
        if not key or len(key) > _KEY_LENGTH or not key.isprintable():
            limit = f"a key has 1 to {_KEY_LENGTH} printable characters"
            raise self._fault(_line(event), f"{limit} (it is {key[:40]!a})")
        return key

    def _scalar(self, event: Any) -> Any:
        text = str(event.value)
        if not text.replace("\n", " ").replace("\t", " ").isprintable():
            raise self._fault(_line(event), "text holds a character that cannot be printed")
        try:
            return text if event.style else plain(text)
        except ValueError as fault:
            raise self._fault(_line(event), str(fault)) from None

    def _alias(self, event: Any) -> Any:
        if event.anchor not in self._anchors:
            raise self._fault(_line(event), f"alias *{event.anchor} has no anchor before it")
        value, size = self._anchors[event.anchor]
        self._grow(size, event)
        return copy.deepcopy(value)

    def _grow(self, by: int, event: Any) -> None:
        self._size += by
        if self._size > _VALUES:
            raise self._fault(_line(event), f"a recipe has {_VALUES} values at most")

    def _fault(self, line: int, message: str) -> ValueError:
        return ValueError(f"{self._place(line + 1)}: {message}")


def plain(text: str) -> Any:
    """What unquoted `text` means: null, a truth value, a number, or itself (YAML 1.2's core)."""
    if text in _NULL:
        return None
    if text in _TRUTH:
        return _TRUTH[text]
    if _ENDLESS.fullmatch(text):
        raise ValueError(f"{text} is no number to compute with; write a finite one")
    if _WHOLE.fullmatch(text) and len(text) < 30:
        whole = int(text, 0 if text[:2] in ("0o", "0x") else 10)
        if abs(whole) < 2**63:
            return whole
    if not _FRACTION.fullmatch(text) and not _WHOLE.fullmatch(text):
        return text
    if _WHOLE.fullmatch(text) or not math.isfinite(float(text)):
        raise ValueError(f"number {text[:20]}{'...' * (len(text) > 20)} is too large")
    return float(text)


def _line(event: Any) -> int:
    return int(event.start_mark.line)
