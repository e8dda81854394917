"""Quantities as people write them in a recipe: `5%`, `10 points`; held as plain fractions."""

import re
from typing import Annotated, Any

from pydantic import BeforeValidator, Field, PlainSerializer

_PERCENT = re.compile(r"\s*([+-]?\d+(?:\.\d+)?)\s*%\s*")
_POINTS = re.compile(r"\s*([+-]?\d+(?:\.\d+)?)\s*points?\s*")


def _scaled(pattern: re.Pattern[str], value: Any) -> Any:
    if isinstance(value, str) and (match := pattern.fullmatch(value)):
        return float(match.group(1)) / 100
    return value


def _share(value: Any) -> Any:
    return _scaled(_PERCENT, value)


def _points(value: Any) -> Any:
    number = value
    if isinstance(value, str) and (percent := _PERCENT.fullmatch(value)):
        number = percent.group(1)
    elif not isinstance(value, int | float):
        return _scaled(_POINTS, value)
    raise ValueError(f"a difference carries its unit: write `{number} points`")


def _written_points(value: float) -> str:
    return f"{value * 100:.12g} points"


Share = Annotated[float, BeforeValidator(_share), Field(ge=0, le=1)]
"""A fraction in [0, 1], written `30%` or `0.3`."""

Points = Annotated[
    float, BeforeValidator(_points), PlainSerializer(_written_points), Field(ge=0, le=1)
]
"""A difference of shares, written `10 points` (held as 0.10)."""
