"""The 58 instructions of IFBench; importing this package registers them."""

from rewards.verifiers.constraints.ifbench import (
    count,
    custom,
    delimited,
    format,
    layout,
    ratio,
    repeat,
    sentence,
    words,
)

__all__ = [
    "count",
    "custom",
    "delimited",
    "format",
    "layout",
    "ratio",
    "repeat",
    "sentence",
    "words",
]
