"""What a benchmark found, as rows of a table, and whether each bar is reached."""

from collections.abc import Sequence
from dataclasses import dataclass
from statistics import median


@dataclass(frozen=True)
class Spread:
    """One figure of interleaved rounds."""

    values: Sequence[float]

    @property
    def middle(self) -> float:
        """The median."""
        return median(self.values)

    def __truediv__(self, other: "Spread") -> "Spread":
        """Ratios round by round, so that what slows the machine slows both sides."""
        return Spread([a / b for a, b in zip(self.values, other.values, strict=True)])

    def __str__(self) -> str:
        low, high = min(self.values), max(self.values)
        return f"{_short(self.middle)} ({_short(low)} to {_short(high)})"


@dataclass(frozen=True)
class Row:
    """A line of the table; without a bar it is there to compare with."""

    what: str
    figure: str
    bar: str = ""
    reached: bool = True

    def __str__(self) -> str:
        verdict = "" if not self.bar else "yes" if self.reached else "**no**"
        return f"| {self.what} | {self.figure} | {self.bar} | {verdict} |"


def measured(what: str, spread: Spread, bar: str = "") -> Row:
    """A row whose median has to satisfy `bar`, such as `>= 2`."""
    return Row(what, str(spread), bar, not bar or _holds(spread.middle, bar))


def _holds(value: float, bar: str) -> bool:
    relation, limit = bar.split()
    return value >= float(limit) if relation == ">=" else value <= float(limit)


def table(rows: Sequence[Row]) -> str:
    """The rows in Markdown."""
    head = ["| what | figure | bar | reached |", "|---|---|---|---|"]
    return "\n".join([*head, *map(str, rows)])


def _short(value: float) -> str:
    if value >= 100:
        return f"{value:,.0f}"
    return f"{value:.2f}" if value < 10 else f"{value:.1f}"
