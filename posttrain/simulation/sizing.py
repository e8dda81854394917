"""Which split of the accelerators is best, and how many reward replicas a run needs.

Both are found by simulating shorter runs on the same prompts, nearby first.
"""

from collections.abc import Callable
from functools import cache
from math import ceil

from posttrain.simulation.outcome import Outcome, simulate
from posttrain.simulation.rules import Rule
from posttrain.simulation.settings import Settings

RESPONSES = 10_000
"""Trained on in each run of a search, at most, but for `STEPS`."""

STEPS = (8, 20)
"""Steps of such a run, at least and at most."""

LOSS = 0.01
"""Share of throughput that too few replicas may cost."""

Run = Callable[[Settings], Outcome]


def best_split(settings: Settings, rule: Rule) -> tuple[int, int]:
    """Accelerators of trainer and rollouts with the highest throughput; their sum is kept.

    Climbs from the present split in ever smaller steps, so it finds the one peak that there is
    but for chance. Of equals it takes the one with more of them generating.
    """
    unit, short = settings.rollout.per_replica, shortened(settings)
    most = (settings.accelerators - 1) // unit

    @cache
    def rate(replicas: int) -> tuple[float, int]:
        split = short.split(settings.accelerators - replicas * unit)
        return simulate(split, rule).samples_per_second, replicas

    best, step = settings.rollout.accelerators // unit, max(1, most // 4)
    while step:
        near = [each for each in (best - step, best, best + step) if 1 <= each <= most]
        found = max(near, key=rate)
        step = step if found != best else step // 2
        best = found
    return settings.accelerators - best * unit, best * unit


def replicas_needed(settings: Settings, run: Run) -> int:
    """The fewest replicas with which `run` reaches the throughput of unlimited ones, but for LOSS.

    0 where verdicts take no time.
    """
    short = shortened(settings)

    def with_replicas(replicas: int | None) -> Outcome:
        reward = short.reward.model_copy(update={"replicas": replicas})
        return run(short.model_copy(update={"reward": reward}))

    unlimited = with_replicas(None)
    wanted = (1 - LOSS) * unlimited.samples_per_second
    if not unlimited.scoring:
        return 0
    # Fewer than are busy on average cannot do.
    low = ceil(unlimited.scoring * (1 - LOSS) / short.reward.at_once) - 1
    step = 1
    while with_replicas(low + step).samples_per_second < wanted:
        low, step = low + step, 2 * step
    high = low + step
    while high - low > 1:
        middle = (low + high) // 2
        enough = with_replicas(middle).samples_per_second >= wanted
        low, high = (low, middle) if enough else (middle, high)
    return high


def shortened(settings: Settings) -> Settings:
    """The same run with as few steps as tell."""
    least, most = STEPS
    wanted = RESPONSES // (settings.prompts_per_step * settings.group_size)
    steps = min(settings.steps, most, max(least, wanted))
    return settings.model_copy(update={"steps": steps})
