"""Rows out of Arrow's record batches, as JSON would have them.

A column gives every row a value, null where it has none: so null means absent, at any depth.
"""

from collections.abc import Callable, Iterator, Mapping
from typing import Any

from posttrain.data.checks.rows import Content, Fault, Place, Row


class _Unfit(Exception):
    """A value that JSON has no form for: the path of its field, and what it is."""

    def __init__(self, field: str, told: str) -> None:
        super().__init__(told)
        self.field = field


def rows(batches: Callable[[], Iterator[Any]], dataset: str, name: str) -> Iterator[Row | Fault]:
    """The rows of `batches()`, counted from 1; where reading fails, a Fault is the last."""
    import pyarrow

    count = 0
    try:
        for batch in batches():
            for content in _contents(batch):
                count += 1
                yield _row(content, Place(dataset, name, count))
    except (pyarrow.ArrowException, OSError) as broken:
        told = " ".join(str(broken).split())
        yield Fault(Place(dataset, name, count + 1), "", f"cannot be read: {told[:200]}")


def _contents(batch: Any) -> Iterator[dict[str, Any] | UnicodeDecodeError]:
    """The rows of a batch; those of a batch that is not all UTF-8 are looked at one by one."""
    try:
        yield from batch.to_pylist(maps_as_pydicts="strict")
        return
    except UnicodeDecodeError:
        pass
    for at in range(batch.num_rows):
        try:
            yield from batch.slice(at, 1).to_pylist(maps_as_pydicts="strict")
        except UnicodeDecodeError as broken:
            yield broken


def _row(content: dict[str, Any] | UnicodeDecodeError, place: Place) -> Row | Fault:
    if isinstance(content, UnicodeDecodeError):
        return Fault(place, "", f"is not UTF-8 at byte {content.start + 1} of a text")
    try:
        plain: Content = _plain(content, "")
    except _Unfit as unfit:
        return Fault(place, unfit.field, f"is {unfit}, which JSON has no form for")
    return Row(place, plain)


def _plain(value: Any, path: str) -> Any:
    """`value` without what is null; `_Unfit` if it is more than JSON can say."""
    if isinstance(value, str | bool | int) or value is None:
        return value
    if isinstance(value, Mapping):
        prefix = f"{path}." if path else ""
        return {
            str(key): _plain(inner, f"{prefix}{key}")
            for key, inner in value.items()
            if inner is not None
        }
    if isinstance(value, list):
        return [_plain(inner, f"{path}[{index}]") for index, inner in enumerate(value)]
    if isinstance(value, float) and value - value == 0:
        return value
    raise _Unfit(path, str(value) if isinstance(value, float) else type(value).__name__)
