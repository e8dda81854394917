"""Tool calls against those that are expected: what counts as the same.

Always holds: the order of arguments and of parallel calls is no difference; a number is its value
(`2` is `2.0`, `true` is no number); texts are compared without case and with single spaces; lists
in order, objects by key. An optional argument may be left out or have one of its stated values; any
other argument that is not expected is wrong.
"""

import unicodedata
from collections.abc import Mapping, Sequence
from typing import Any

from rewards.calls import Call

Expected = Mapping[str, Any]
"""`name`, `arguments` (name -> values that are right), `optional` (likewise, perhaps left out)."""

_TYPES: Mapping[str, tuple[type, ...]] = {
    "string": (str,), "number": (int, float), "integer": (int,), "boolean": (bool,),
    "array": (list,), "object": (dict,),
}  # fmt: skip


def matches(calls: Sequence[Call], expected: Sequence[Expected]) -> bool:
    """Whether each call is one of those expected and none is left over, in whichever order."""
    if len(calls) != len(expected):
        return False
    if not calls:
        return True
    first, *rest = calls
    return any(
        right(first, wanted) and matches(rest, [*expected[:at], *expected[at + 1 :]])
        for at, wanted in enumerate(expected)
    )


def right(call: Call, expected: Expected) -> bool:
    """Whether `call` is the one expected."""
    given = call.arguments
    if call.name != expected["name"] or not isinstance(given, Mapping):
        return False
    needed, optional = expected["arguments"], expected.get("optional", {})
    if not needed.keys() <= given.keys() <= needed.keys() | optional.keys():
        return False
    allowed = {**optional, **needed}
    return all(any(same(value, v) for v in allowed[name]) for name, value in given.items())


def same(given: Any, wanted: Any) -> bool:
    """Whether two JSON values are the same argument."""
    if isinstance(given, bool) or isinstance(wanted, bool):
        return given is wanted
    if isinstance(given, str) and isinstance(wanted, str):
        return _plain(given) == _plain(wanted)
    if isinstance(given, list) and isinstance(wanted, list):
        return len(given) == len(wanted) and all(map(same, given, wanted))
    if isinstance(given, Mapping) and isinstance(wanted, Mapping):
        return given.keys() == wanted.keys() and all(same(given[k], wanted[k]) for k in given)
    return bool(given == wanted)


def fits(call: Call, tools: Sequence[Mapping[str, Any]]) -> bool:
    """Whether `call` is of a tool on offer and its arguments are such as that tool takes."""
    tool = next((tool for tool in tools if tool["name"] == call.name), None)
    if tool is None or not isinstance(call.arguments, Mapping):
        return False
    properties = tool["parameters"]["properties"]
    if not set(tool["parameters"].get("required", ())) <= call.arguments.keys():
        return False
    return all(
        name in properties and _typed(value, properties[name])
        for name, value in call.arguments.items()
    )


def _typed(value: Any, schema: Mapping[str, Any]) -> bool:
    kind = schema.get("type")
    if isinstance(value, bool):
        return kind in (None, "boolean")
    known = kind is None or isinstance(value, _TYPES[kind])
    return known and value in schema.get("enum", [value])


def _plain(text: str) -> str:
    return " ".join(unicodedata.normalize("NFC", text).casefold().split())
