"""Paired tests: their p values are the probabilities they claim to be, and hold their error."""

from collections import Counter
from functools import cache
from itertools import product
from math import comb, isclose

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from posttrain.gates.config import Statistics
from posttrain.gates.correction import holm
from posttrain.gates.paired import _score, binary, bootstrap, mcnemar, unconditional
from posttrain.gates.planning import visible_gain, visible_loss

ERROR = 0.025

counts = st.tuples(st.integers(0, 12), st.integers(0, 12), st.integers(0, 12))
bars = st.sampled_from([-0.3, -0.1, 0.05, 0.25])


@pytest.mark.parametrize(
    ("wins", "losses", "p"),
    [(0, 0, 1.0), (5, 0, 1 / 32), (0, 5, 1.0), (8, 2, 56 / 1024), (3000, 3000, 0.50514986)],
)
def test_mcnemar_is_a_sign_test_of_the_prompts_that_differ(
    wins: int, losses: int, p: float
) -> None:
    assert mcnemar(wins, losses) == pytest.approx(p, rel=1e-6)


@settings(max_examples=20)
@given(counts, bars)
def test_the_unconditional_p_bounds_the_probability_of_what_is_as_good(
    numbers: tuple[int, int, int], bar: float
) -> None:
    wins, losses, equal = numbers
    prompts = wins + losses + equal + 1
    p = unconditional(wins, losses, prompts, bar)
    observed = _score(np.array([float(wins)]), np.array([float(losses)]), prompts, bar)[0]
    for share in (abs(bar), (1 + abs(bar)) / 2):
        assert _by_enumeration(observed, prompts, share, bar) <= p + 0.02


def _by_enumeration(observed: float, prompts: int, share: float, bar: float) -> float:
    won, lost = (share + bar) / 2, (share - bar) / 2
    pairs = [(w, c) for w, c in product(range(prompts + 1), repeat=2) if w + c <= prompts]
    grid = np.array(pairs, dtype=float).T
    good = _score(grid[0], grid[1], prompts, bar) >= observed - 1e-9
    return sum(
        comb(prompts, w) * comb(prompts - w, c) * won**w * max(lost, 0.0) ** c
        * max(1 - share, 0.0) ** (prompts - w - c)
        for (w, c), kept in zip(pairs, good, strict=True) if kept
    )  # fmt: skip


def test_no_difference_at_all_is_worth_what_it_can_be() -> None:
    assert isclose(unconditional(0, 0, 30, -0.1), 0.9**30, rel_tol=1e-6)


@settings(max_examples=20)
@given(counts, bars)
def test_more_wins_never_make_p_larger(numbers: tuple[int, int, int], bar: float) -> None:
    wins, losses, equal = numbers
    prompts = wins + losses + equal + 1
    assert binary(wins + 1, losses, prompts, bar) <= binary(wins, losses, prompts, bar) + 1e-9
    assert binary(wins, losses, prompts, 0) <= binary(wins, losses + 1, prompts, 0) + 1e-9


@cache
def critical(prompts: int, bar: float) -> float:
    """The least score at which the unconditional test rejects."""
    pairs = {
        round(float(_score(np.array([float(w)]), np.array([float(c)]), prompts, bar)[0]), 9): (w, c)
        for m in range(prompts + 1) for w in range(m + 1) for c in [m - w]
        if abs(w - c - prompts * bar) < 8 * prompts**0.5 and (w + c) % 3 == 0
    }  # fmt: skip
    scores = sorted(pairs)
    low, high = 0, len(scores) - 1
    while low < high:
        middle = (low + high) // 2
        rejects = unconditional(*pairs[scores[middle]], prompts, bar) <= ERROR
        low, high = (low, middle) if rejects else (middle + 1, high)
    return scores[low]


def found(prompts: int, differing: float, gain: float, bar: float) -> float:
    """How often a true `gain` is found to be above `bar`, of 20,000 simulated measurements."""
    chances = [(differing + gain) / 2, (differing - gain) / 2, 1 - differing]
    drawn = np.random.default_rng(7).multinomial(prompts, chances, 20_000)
    if bar == 0:
        kept = Counter((int(w), int(c)) for w, c, _ in drawn)
        return sum(n for pair, n in kept.items() if mcnemar(*pair) <= ERROR) / len(drawn)
    wins, losses = drawn[:, 0].astype(float), drawn[:, 1].astype(float)
    return float((_score(wins, losses, prompts, bar) >= critical(prompts, bar) - 1e-6).mean())


@pytest.mark.parametrize(("prompts", "bar"), [(100, -0.1), (100, 0.1), (240, -0.05), (240, 0.0)])
def test_simulated_nulls_hold_the_error(prompts: int, bar: float) -> None:
    for differing in (0.1, 0.2, 0.5):
        assert found(prompts, differing, bar, bar) <= ERROR + 0.003  # 2.7 standard errors


@pytest.mark.parametrize("prompts", [150, 300])
def test_simulated_effects_are_found_at_the_power(prompts: int) -> None:
    statistics = Statistics()
    gain = visible_gain(prompts, 0.0, statistics, 1)
    loss = visible_loss(prompts, statistics, 1)
    assert gain is not None
    assert loss is not None
    differing, loss = statistics.discordant, round(loss, 4)
    assert found(prompts, max(differing, gain), gain, 0.0) >= statistics.power - 0.02
    assert found(prompts, differing, 0.0, -loss) >= statistics.power - 0.02
    assert found(prompts, differing, -loss / 3, -loss) < statistics.power - 0.2


def attempted(prompts: int, tries: int, lost: float, seed: int) -> list[float]:
    """Differences of prompt means over `tries`, where a share `lost` of the prompts is lost."""
    generator = np.random.default_rng(seed)
    before = generator.random(prompts)
    after = np.where(generator.random(prompts) < 2 * lost, 0.0, before)
    tried = [generator.binomial(tries, rates) / tries for rates in (after, before)]
    return list(tried[0] - tried[1])


def test_the_bootstrap_holds_its_error_when_attempts_are_alike() -> None:
    passed = [bootstrap(attempted(150, 4, 0.1, seed), -0.1) <= ERROR for seed in range(120)]
    assert sum(passed) / len(passed) <= ERROR + 0.034


def test_the_bootstrap_finds_what_is_there() -> None:
    passed = [bootstrap(attempted(150, 4, 0.0, seed), -0.1) <= ERROR for seed in range(40)]
    assert sum(passed) / len(passed) >= 0.8


def test_attempts_do_not_pass_for_prompts() -> None:
    few = [0.2, -0.1, 0.3, 0.1, 0.0, 0.2, -0.2, 0.3]
    assert bootstrap(few, 0.0) > bootstrap(few * 4, 0.0)


def test_prompts_that_are_all_alike_leave_doubt() -> None:
    assert bootstrap([0.0] * 10, -0.1) > ERROR
    assert bootstrap([0.0] * 400, -0.1) <= ERROR


def test_the_same_scores_give_the_same_p() -> None:
    differences = attempted(40, 2, 0.0, 1)
    assert bootstrap(differences, -0.1) == bootstrap(differences, -0.1)


def test_holm_steps_down() -> None:
    assert holm([0.01, 0.04, 0.03]) == pytest.approx([0.03, 0.06, 0.06])
    assert holm([]) == []


@given(st.lists(st.floats(0, 1), max_size=6))
def test_holm_lies_between_p_and_bonferroni(p_values: list[float]) -> None:
    for p, adjusted in zip(p_values, holm(p_values), strict=True):
        assert p <= adjusted <= min(1.0, max(p_values) * len(p_values)) or adjusted == 1.0


def test_holm_holds_the_family_error() -> None:
    drawn = np.random.default_rng(3).random((4000, 5))
    wrong = [min(holm(list(row))) <= 0.05 for row in drawn]
    assert sum(wrong) / len(wrong) <= 0.05 + 0.009
