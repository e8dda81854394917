"""Paired tests: how likely a gain of this size is if the true one is no more than the bar.

All are one-sided. Two are exact, for prompts tried once that are right or wrong: McNemar's for a
bar of 0, and an unconditional one for other bars, which orders outcomes by Tango's score statistic
and takes the worst case over the share of prompts that differ (T. Tango, Statistics in Medicine 17
(1998) 891). The bootstrap resamples prompts whole, with all their attempts.
"""

from collections.abc import Sequence
from math import exp, fsum, lgamma, log

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]
Whole = NDArray[np.int64]

RESAMPLES = 10_000
_CHUNK = 1 << 21
_SHARES = 48
_DEVIATIONS = 7.0
"""Standard deviations of a binomial beyond which its probability is left out (< 1e-11)."""


def binary(wins: int, losses: int, prompts: int, bar: float) -> float:
    """p of `wins` (only the candidate is right) and `losses` of `prompts`; `bar` in (-1, 1)."""
    assert 0 <= wins + losses <= prompts
    return mcnemar(wins, losses) if bar == 0 else unconditional(wins, losses, prompts, bar)


def mcnemar(wins: int, losses: int) -> float:
    """P(at least `wins` of the differing prompts) when each is as likely won as lost."""
    differing = wins + losses
    logs = (
        lgamma(differing + 1) - lgamma(k + 1) - lgamma(differing - k + 1) - differing * log(2)
        for k in range(wins, differing + 1)
    )
    return min(1.0, fsum(map(exp, logs)))


def unconditional(wins: int, losses: int, prompts: int, bar: float) -> float:
    """The largest probability, over all ways to be at the bar, of an outcome at least as good."""
    observed = _score(np.array([float(wins)]), np.array([float(losses)]), prompts, bar)[0]
    differing = np.arange(prompts + 1)
    least = _least_wins(differing, prompts, bar, observed)
    low = abs(bar)
    shares = low + (1 - low) * np.linspace(0.0, 1.0, _SHARES) ** 2
    return float(min(1.0, max(_beyond(share, differing, least, bar) for share in shares)))


def _score(wins: Array, losses: Array, prompts: int, bar: float) -> Array:
    """Tango's statistic: the gain's distance from the bar in standard errors at the bar."""
    middle = wins * (1 + bar) + losses * (1 - bar) - 2 * bar * prompts
    root = np.sqrt(np.maximum(middle**2 + 8 * prompts * losses * bar * (1 - bar), 0.0))
    lost = np.clip((middle + root) / (4 * prompts), max(0.0, -bar), (1 - bar) / 2)
    variance = prompts * np.maximum(2 * lost + bar - bar**2, 0.0)
    distance = wins - losses - prompts * bar
    with np.errstate(divide="ignore", invalid="ignore"):
        score = distance / np.sqrt(variance)
    return np.where(variance > 0, score, np.where(distance > 0, np.inf, -np.inf))


def _least_wins(differing: Whole, prompts: int, bar: float, observed: float) -> Whole:
    """For each number of differing prompts, the fewest wins that are as good as `observed`."""
    low, high = np.zeros_like(differing), differing + 1
    while (low < high).any():
        middle = (low + high) // 2
        wins = np.minimum(middle, differing).astype(float)
        good = _score(wins, differing - wins, prompts, bar) >= observed - 1e-9
        good |= middle > differing
        low, high = np.where(good | (low >= high), low, middle + 1), np.where(good, middle, high)
    return low


def _beyond(share: float, differing: Whole, least: Whole, bar: float) -> float:
    """P(wins >= least) if `share` of the prompts differ and the gain is `bar`."""
    prompts = len(differing) - 1
    near = np.abs(differing - prompts * share) <= _reach(prompts, share)
    count, least = differing[near], least[near]
    logs = _log_factorials(prompts)
    weight = _binomial(count, np.array([prompts]), share, logs)
    won = min(max((share + bar) / (2 * share), 0.0), 1.0)
    offsets = np.arange(-_reach(prompts, won), _reach(prompts, won) + 1)
    total = 0.0
    step = max(1, _CHUNK // len(offsets))
    for start in range(0, len(count), step):
        rows = slice(start, start + step)
        wins = np.rint(count[rows, None] * won).astype(np.int64) + offsets
        mass = _binomial(wins, count[rows, None], won, logs)
        tail = np.where(wins >= least[rows, None], mass, 0.0).sum(1)
        total += float((weight[rows] * tail).sum())
    return total


def _reach(count: int, rate: float) -> int:
    """How far from its mean a binomial is looked at."""
    return int(_DEVIATIONS * np.sqrt(count * rate * (1 - rate))) + 12


def _binomial(hits: Whole, count: Whole, rate: float, logs: Array) -> Array:
    """Probabilities of `hits` of `count`, 0 where that is impossible; `logs` of factorials."""
    possible = (hits >= 0) & (hits <= count)
    hits = np.clip(hits, 0, count)
    misses = count - hits
    with np.errstate(divide="ignore", invalid="ignore"):
        ours = np.where(hits > 0, hits * np.log(rate), 0.0)
        theirs = np.where(misses > 0, misses * np.log1p(-rate), 0.0)
    log = logs[count] - logs[hits] - logs[misses] + ours + theirs
    return np.where(possible, np.exp(log), 0.0)


def _log_factorials(most: int) -> Array:
    return np.concatenate([[0.0], np.cumsum(np.log(np.arange(1, most + 1)))])


def bootstrap(differences: Sequence[float], bar: float, seed: int = 0) -> float:
    """p of the mean of `differences` (one per prompt, in [-1, 1]) from resampled prompts.

    One prompt won outright and one lost are added: without them, prompts that are all alike
    would leave no doubt, however few they are. The same input gives the same p.
    """
    sample = np.array([*differences, 1.0, -1.0])
    generator = np.random.default_rng(seed)
    size = len(sample)
    below, left = 0, RESAMPLES
    while left:
        count = min(left, max(1, _CHUNK // size))
        means = sample[generator.integers(0, size, (count, size))].mean(1)
        below += int((means <= bar + 1e-12).sum())
        left -= count
    return (below + 1) / (RESAMPLES + 1)
