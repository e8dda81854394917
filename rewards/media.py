"""Bodies in JSON or msgpack. Both say the same: what JSON cannot, msgpack may not either here."""

from collections.abc import Collection, Sequence
from typing import Any, Literal

from msgspec import DecodeError, json, msgpack
from pydantic import ValidationError
from pydantic_core import from_json

from rewards.schema import Entry, Verdict, entries, plain_items

JSON = "application/json"
MSGPACK = "application/msgpack"
_NAMES = {JSON: JSON, MSGPACK: MSGPACK, "application/x-msgpack": MSGPACK, "": JSON}

_Problem = dict[Literal["loc", "msg", "type"], Any]


class Malformed(Exception):
    """A body is not what it should be; `problems` say where, and what was expected."""

    def __init__(self, problems: Sequence[_Problem]) -> None:
        super().__init__()
        self.problems = problems


def medium(content_type: str) -> str | None:
    """The medium of a Content-Type, JSON if there is none; None if it is neither."""
    return _NAMES.get(content_type.partition(";")[0].strip().lower())


def decode(body: bytes, kind: str) -> Sequence[Entry]:
    """Items of a body of the medium `kind`; Malformed otherwise."""
    try:
        if kind == JSON and (plain := plain_items(body)) is not None:
            return plain
        content = from_json(body, allow_inf_nan=False) if kind == JSON else msgpack.decode(body)
    except (ValueError, DecodeError, RecursionError) as fault:
        raise Malformed([_problem([], str(fault), f"{kind.rpartition('/')[2]}_invalid")]) from None
    try:
        return entries(content)
    except ValidationError as fault:
        found = fault.errors(include_url=False, include_context=False, include_input=False)
        raise Malformed(
            [_problem(_path(one["loc"], content), one["msg"], one["type"]) for one in found]
        ) from None


def encode(verdicts: list[Verdict], kind: str) -> bytes:
    """The body of the medium `kind` that holds `verdicts`."""
    content = {"verdicts": [vars(verdict) for verdict in verdicts]}
    return json.encode(content) if kind == JSON else msgpack.encode(content)


def _problem(path: Sequence[int | str], message: str, kind: str) -> _Problem:
    return {"loc": ["body", *path], "msg": message, "type": kind}


def _path(place: Sequence[int | str], content: Any) -> list[int | str]:
    """The part of pydantic's location that exists in `content`, and a key missing at its end.

    It also names the members of unions it tried.
    """
    path: list[int | str] = []
    for at, key in enumerate(place):
        if key in _keys(content):
            content = content[key]
        elif at < len(place) - 1 or not isinstance(content, dict):
            continue
        path.append(key)
    return path


def _keys(content: Any) -> Collection[Any]:
    if isinstance(content, list):
        return range(len(content))
    return content if isinstance(content, dict) else ()
