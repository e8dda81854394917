"""What is wrong with an item's gold or parameters: one line that names the key."""

from collections.abc import Iterable

from pydantic import JsonValue, ValidationError


def problem(fault: ValidationError, known: Iterable[str] = ()) -> str:
    """The first problem; `known` are the keys there are, for whoever used another."""
    first = fault.errors(include_input=False, include_url=False)[0]
    if first["type"] == "extra_forbidden" and len(first["loc"]) == 1:
        return f"{first['loc'][0]}: unknown; there are {', '.join(known) or 'none'}"
    return _line(first["loc"], first["msg"])


def gold_problem(fault: ValidationError, gold: JsonValue, *, union: bool) -> str:
    """The problem of the shape that `gold` comes nearest to, if there is a `union` of shapes."""
    if gold is None:
        return "gold is missing"
    if isinstance(gold, int | float) and not isinstance(gold, bool):
        return f"gold is the number {gold}; write it as text"
    errors = fault.errors(include_input=False, include_url=False)
    nearest = max(errors, key=lambda error: len(error["loc"]))
    return _line(("gold", *nearest["loc"][int(union) :]), nearest["msg"])


def _line(path: tuple[int | str, ...], said: str) -> str:
    what = said.removeprefix("Value error, ")
    return f"{'.'.join(map(str, path))}: {what}" if path else what
