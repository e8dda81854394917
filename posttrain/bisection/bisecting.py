"""One bisection: measures points until the first bad one is known, and says what it rests on."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

from posttrain.bisection.chain import Point
from posttrain.bisection.search import first_bad, looks, turns
from posttrain.gates.paired import mcnemar
from posttrain.registry.lineage import config_difference
from rewards.wilson import interval

Met = Callable[[Point], list[bool]]
"""Whether each prompt is met by a checkpoint."""

CHANCE = 0.05
"""A difference that comes about by chance more often than this is told as one that may have."""


@dataclass(frozen=True)
class Found:
    """The first bad point and its forerunner, with all that was measured, by number of the point.

    `least` is the share of prompts that a good checkpoint meets.
    """

    points: Sequence[Point]
    measured: Mapping[int, Sequence[bool]]
    least: float
    bad: int

    @property
    def p(self) -> float:
        """Exact McNemar, one-sided: chance of such a loss at the first bad point if it has none."""
        return lost_by_chance(self.measured[self.bad - 1], self.measured[self.bad])

    @property
    def unsteady(self) -> list[int]:
        """Prompts that were lost, and were met again by a later point that was looked at."""
        order = [self.measured[at] for at in sorted(self.measured)]
        return [n for n, each in enumerate(zip(*order, strict=True)) if _returns(each)]

    @property
    def others(self) -> list[int]:
        """Other points at which good turns to bad, if all were looked at."""
        if len(self.measured) < len(self.points):
            return []
        good = [share(self.measured[at]) >= self.least for at in range(len(self.points))]
        return [at for at in turns(good) if at != self.bad]

    def told(self) -> dict[str, Any]:
        """As JSON values."""
        before, after = self.points[self.bad - 1], self.points[self.bad]
        looked = sorted(self.measured)
        return {
            "first_bad": after.name, "last_good": before.name, "p": self.p, "least": self.least,
            "config": {name: list(values) for name, values in self.config().items()},
            "measured": [figures(self.points[at], self.measured[at]) for at in looked],
            "points": len(self.points), "unsteady_prompts": [n + 1 for n in self.unsteady],
            "other_turns": [self.points[at].name for at in self.others],
        }  # fmt: skip

    def config(self) -> dict[str, tuple[Any, Any]]:
        """How the config of the first bad stage differs from that of the stage before it."""
        bad = self.points[self.bad].made
        before = [point.made for point in self.points[: self.bad] if point.made != bad]
        return config_difference(before[-1], bad)


def bisect(points: Sequence[Point], met: Met, least: float | None, every: bool = False) -> Found:
    """Find the first bad of `points`; with `every` all are measured, and all turns are known.

    A checkpoint is good if it meets at least the share `least` of the prompts: if that is not said,
    midway between the ends. ValueError if the good end is not good, or the bad one not bad.
    """
    measured = {at: met(points[at]) for at in (0, len(points) - 1)}
    bar = _bar(points, measured, least)

    def good(at: int) -> bool:
        if at not in measured:
            measured[at] = met(points[at])
        return share(measured[at]) >= bar

    if every:
        found = turns([good(at) for at in range(len(points))])[0]
    else:
        found = first_bad(len(points), good)
        assert len(measured) <= looks(len(points))
    return Found(points, measured, bar, found)


def _bar(
    points: Sequence[Point], measured: Mapping[int, Sequence[bool]], least: float | None
) -> float:
    good, bad = (share(measured[at]) for at in (0, len(points) - 1))
    ends = (
        f"{points[0].name} meets {_counted(measured[0])} of the prompts, "
        f"{points[-1].name} {_counted(measured[len(points) - 1])}"
    )
    if good <= bad:
        raise ValueError(f"there is nothing to find: {ends}; the good end must meet more")
    bar = (good + bad) / 2 if least is None else least
    if good < bar:
        raise ValueError(f"--good is not good: {ends}, and good is {bar:.0%} or more")
    if bad >= bar:
        raise ValueError(f"--bad is not bad: {ends}, and good is {bar:.0%} or more")
    return bar


def share(met: Sequence[bool]) -> float:
    """The share of prompts that is met."""
    return sum(met) / len(met)


def lost_by_chance(before: Sequence[bool], after: Sequence[bool]) -> float:
    """Exact McNemar, one-sided: the chance of so many losses if each change is as likely a win."""
    pairs = list(zip(before, after, strict=True))
    return mcnemar(sum(a and not b for a, b in pairs), sum(b and not a for a, b in pairs))


def figures(point: Point, met: Sequence[bool]) -> dict[str, Any]:
    """What a point met, with Wilson's interval at 95 %."""
    low, high = interval(sum(met), len(met))
    return {
        "checkpoint": point.name, "met": sum(met), "prompts": len(met), "share": share(met),
        "low": low, "high": high,
    }  # fmt: skip


def _counted(met: Sequence[bool]) -> str:
    return f"{sum(met)} of {len(met)}"


def _returns(met: Sequence[bool]) -> bool:
    return any(not one and next_ for one, next_ in pairwise(met))
