"""Mixtures: which share of the training each source gives, and when one has given all it has.

All of it is pure. Sizes are in the unit the shares are of: tokens that the loss counts, or rows.
A source's supply is its epochs; beyond that it is exhausted, and the mixture says what follows:
it is repeated, the run stops, or the others take over its share in proportion to theirs.
"""

import math
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Annotated, Any, Literal, NamedTuple

from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    PlainSerializer,
)

from posttrain.names import Name
from posttrain.quantities import Share

if TYPE_CHECKING:
    from posttrain.data.packing import PackingConfig

Unit = Literal["tokens", "rows"]
OnExhausted = Literal["stop", "repeat", "reweight"]

_SLACK = 1e-6
"""Rows that rounding may cost."""

_EPOCHS = re.compile(r"\s*(\d+(?:\.\d+)?)\s*epochs?\s*")


def _epochs(value: Any) -> Any:
    if isinstance(value, str) and (match := _EPOCHS.fullmatch(value)):
        return float(match.group(1))
    return value


class Part(BaseModel):
    """What one source gives: a share of the mixture, or in proportion to its `epochs`.

    `epochs` are also how often its rows may be seen before it is exhausted.
    """

    model_config = ConfigDict(extra="forbid", frozen=True)

    share: Annotated[Share, Field(gt=0)] | None = None
    epochs: Annotated[float, BeforeValidator(_epochs), Field(gt=0, le=1000)] = 1.0


def _part(value: Any) -> Any:
    if isinstance(value, str) and _EPOCHS.fullmatch(value):
        return {"epochs": value}
    return {"share": value} if isinstance(value, str | int | float) else value


def _written(part: Part) -> Any:
    """As it was written before sources had epochs: a share alone is a number."""
    return part.share if part.share is not None and part.epochs == 1 else part.model_dump()


PartField = Annotated[Part, BeforeValidator(_part), PlainSerializer(_written)]
"""`60%`, `2 epochs` or `{share: 60%, epochs: 2}`."""


class Size(NamedTuple):
    """A source: its rows (with packing its bins), and their sum in the unit of the mixture."""

    rows: int
    amount: float


class Mixture(NamedTuple):
    """What a run draws: `examples` in all, from `parts`, by the rules of this module.

    An example is a row, or with `packing` a bin of several.
    """

    parts: Mapping[str, Part]
    unit: Unit
    on_exhausted: OnExhausted
    examples: int
    batch: int
    packing: "PackingConfig | None" = None


def checked(parts: Mapping[str, Part]) -> Mapping[str, Part]:
    """The parts; ValueError if only some have a share, or these do not add up to 100%."""
    given = [part.share for part in parts.values() if part.share is not None]
    if given and (len(given) < len(parts) or abs(sum(given) - 1) > 1e-6):
        told = ", ".join(f"{name} {_share(part)}" for name, part in parts.items())
        raise ValueError(f"shares of the data must be positive and add up to 100%, got {told}")
    return parts


def _named(value: Any) -> Any:
    return {value: 1.0} if isinstance(value, str) else value


PartsField = Annotated[
    dict[Name, PartField], BeforeValidator(_named), Field(min_length=1), AfterValidator(checked)
]
"""One name, or names with what each gives."""


def _share(part: Part) -> str:
    return "none" if part.share is None else f"{part.share * 100:.4g}%"


def shares(parts: Mapping[str, Part], sizes: Mapping[str, Size]) -> dict[str, float]:
    """Each source's share: as stated, or its part of all epochs together."""
    stated = {name: part.share for name, part in parts.items() if part.share is not None}
    if stated:
        return stated
    given = {name: part.epochs * sizes[name].amount for name, part in parts.items()}
    total = sum(given.values())
    return {name: amount / total for name, amount in given.items()}


def needs_tokens(mixture: Mixture) -> bool:
    """Whether rows alone do not tell what will be drawn: shares of tokens, by several sources.

    What is drawn in proportion to epochs is the same in rows, whatever the unit.
    """
    stated = any(part.share is not None for part in mixture.parts.values())
    return mixture.unit == "tokens" and stated and len(mixture.parts) > 1


def supply(part: Part, rows: int) -> int:
    """How many of its rows a source gives until it is exhausted: at least one."""
    return max(1, round(part.epochs * rows))


class Forecast(NamedTuple):
    """What a run will draw of one source, and the step in which it finds it exhausted, if it does.

    `share` is of what is drawn in all, in the unit of the mixture.
    """

    source: str
    share: float
    rows: float
    epochs: float
    step: int | None


class Forecasts(NamedTuple):
    """The forecast of each source, and how many full steps the run will have."""

    sources: Sequence[Forecast]
    steps: int


class _Phase(NamedTuple):
    """A stretch in which the same sources give: the rows of each, and the draw it starts at."""

    start: float
    rows: Mapping[str, float]


def forecast(mixture: Mixture, sizes: Mapping[str, Size]) -> Forecasts:
    """What the run will draw, taking each source's rows to be of their mean size."""
    phases = list(_phases(mixture, sizes))
    drawn = {name: sum(p.rows.get(name, 0.0) for p in phases) for name in mixture.parts}
    amounts = {name: rows * _mean(sizes[name]) for name, rows in drawn.items()}
    found = [
        Forecast(
            name, amounts[name] / sum(amounts.values()), rows, rows / sizes[name].rows,
            _step(mixture, name, supply(mixture.parts[name], sizes[name].rows), phases),
        )
        for name, rows in drawn.items()
    ]  # fmt: skip
    return Forecasts(found, int(sum(drawn.values()) + _SLACK) // mixture.batch)


def _phases(mixture: Mixture, sizes: Mapping[str, Size]) -> Iterator[_Phase]:
    """From one exhaustion to the next, until the run ends."""
    live = shares(mixture.parts, sizes)
    left = {name: float(supply(part, sizes[name].rows)) for name, part in mixture.parts.items()}
    done, examples = 0.0, float(mixture.examples)
    while live and examples - done > _SLACK:
        pace = {name: share / _mean(sizes[name]) for name, share in live.items()}
        rates = {name: each / sum(pace.values()) for name, each in pace.items()}
        lasting = min(left[name] / rate for name, rate in rates.items())
        if mixture.on_exhausted == "repeat":
            lasting = math.inf
        count = min(lasting, examples - done)
        yield _Phase(done, {name: rate * count for name, rate in rates.items()})
        if mixture.on_exhausted == "stop" and lasting <= count:
            return
        done += count
        left = {name: left[name] - rates[name] * count for name in live}
        live = {name: share for name, share in live.items() if left[name] > _SLACK}


def _step(mixture: Mixture, name: str, rows: int, phases: Sequence[_Phase]) -> int | None:
    """The step that draws from the source when it has given `rows`; None if none does."""
    remaining = float(rows)
    for phase in phases:
        given = phase.rows.get(name, 0.0)
        if given >= remaining - _SLACK and given > 0:
            draw = phase.start + sum(phase.rows.values()) * remaining / given
            step = int(draw + _SLACK) // mixture.batch + 1
            return step if step * mixture.batch <= mixture.examples else None
        remaining -= given
    return None


def _mean(size: Size) -> float:
    return size.amount / size.rows


def told(source: Forecast, mixture: Mixture) -> str:
    """A forecast in one line."""
    part, examples = mixture.parts[source.source], "bins" if mixture.packing else "rows"
    drawn = f"{source.rows:,.0f} {examples}, {source.epochs:.2f} epochs"
    line = f"{source.source} {source.share:.1%}: {drawn}"
    if source.step is None:
        return line
    after = {"stop": "the run ends", "repeat": "repeated", "reweight": "the others take over"}
    given = f"{part.epochs:g} epoch{'s' * (part.epochs != 1)}"
    then = after[mixture.on_exhausted]
    return f"{line}; exhausted after {given}, in step {source.step:,}: {then}"
