"""Power: which change a gate could see, and which gates are refused because they see too little.

Normal approximation with the variance of paired differences: of prompts on which the checkpoints
differ at the share `discordant`, or more where the gain itself is larger (R. J. Connor, Biometrics
43 (1987) 207). Attempts at one prompt are alike: what counts is the number of prompts.
"""

from collections.abc import Callable, Iterator
from math import sqrt
from statistics import NormalDist

from posttrain.gates.config import Promotion, Statistics, Threshold, describe

_NORMAL = NormalDist()
_HALVINGS = 40


def visible_gain(prompts: int, bar: float, statistics: Statistics, tests: int) -> float | None:
    """Smallest true gain above `bar` found at the stated power; None if none below 1 is."""
    return _smallest(lambda gain: _seen(prompts, bar, gain, statistics, tests), max(bar, 0.0))


def visible_loss(
    prompts: int, statistics: Statistics, tests: int, expected: float = 0.0
) -> float | None:
    """Smallest margin that can be shown not to be lost, if `expected` is the true gain."""
    return _smallest(lambda loss: _seen(prompts, -loss, expected, statistics, tests), 0.0)


def _smallest(seen: Callable[[float], bool], low: float) -> float | None:
    high = 1.0
    if not seen(high):
        return None
    for _ in range(_HALVINGS):
        middle = (low + high) / 2
        low, high = (low, middle) if seen(middle) else (middle, high)
    return high


def _seen(prompts: int, bar: float, gain: float, statistics: Statistics, tests: int) -> bool:
    """Whether a true `gain` is found to be above `bar` at the stated power.

    `tests` share the error: Holm's correction takes the smallest part of it first.
    """
    error = statistics.error / (tests if statistics.correction == "holm" else 1)
    differing = max(statistics.discordant, abs(gain))
    under_bar = sqrt(max(max(differing, abs(bar)) - bar**2, 0.0))
    in_truth = sqrt(max(differing - gain**2, 0.0))
    needed = _NORMAL.inv_cdf(1 - error) * under_bar
    needed += _NORMAL.inv_cdf(statistics.power) * in_truth
    # The tests are exact, which costs what one prompt more would have shown.
    return (gain - bar) * sqrt(prompts) - 1 / sqrt(prompts) >= needed


def shortfall(gate: Threshold, prompts: int, statistics: Statistics, tests: int) -> str | None:
    """Why `prompts` are too few for `gate` to see its margin; None if they are enough."""
    if gate.not_worse_than is not None:
        least = visible_loss(prompts, statistics, tests, gate.expected or 0.0)
        return _told("loss", prompts, least, gate.not_worse_than)
    if gate.expected is not None:
        return _told(
            "gain", prompts, visible_gain(prompts, gate.bar, statistics, tests), gate.expected
        )
    return _told("gain", prompts, visible_gain(prompts, 0.0, statistics, tests), gate.bar)


def group_shortfall(
    gate: Threshold, prompts: int, statistics: Statistics, tests: int
) -> str | None:
    """Why a group of `prompts` is too small to show what the gate asks of each; else None."""
    assert gate.groups_not_worse_than is not None
    least = visible_loss(prompts, statistics, tests)
    return _told("loss", prompts, least, gate.groups_not_worse_than)


def _told(what: str, prompts: int, least: float | None, margin: float) -> str | None:
    if least is not None and least <= margin:
        return None
    seen = f"is {least * 100:.1f} points" if least is not None else "does not exist"
    return (
        f"the smallest {what} that {prompts} prompts can show {seen}, not {margin * 100:g}; "
        "take more prompts or a wider margin"
    )


def tests_of(promotion: Promotion) -> int:
    """Paired tests that are known before anything is measured."""
    return max(len(promotion.paired), 1)


def refusals(promotion: Promotion, prompts: Callable[[str], int | None]) -> Iterator[str]:
    """One line for each gate that could not see its margin; `prompts` gives a suite's, if known."""
    for gate in promotion.paired:
        count = prompts(gate.suite)
        if count is None:
            continue  # Looked at again when the figures are there.
        if why := shortfall(gate, count, promotion.statistics, tests_of(promotion)):
            yield f"gate {describe(gate)} cannot see its margin: {why}"
