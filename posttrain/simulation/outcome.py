"""What a simulated run came to: throughput against its ceiling, ages, idle shares, losses."""

from collections import Counter
from dataclasses import dataclass
from math import ceil

from posttrain.simulation.ceiling import least_seconds, least_seconds_in_turn
from posttrain.simulation.distributions import INFINITE
from posttrain.simulation.engine import Simulation
from posttrain.simulation.group import State
from posttrain.simulation.rules import Rule, SynchronousRule
from posttrain.simulation.settings import Settings


@dataclass(frozen=True)
class Ages:
    """Versions between the weights a trained response began with and those trained on it."""

    p50: int
    p99: int
    most: int


@dataclass(frozen=True)
class Outcome:
    """A row of the table.

    `samples_per_second` are responses trained on over the whole run, its first batch included;
    `ceiling` is what no schedule of the same work could exceed. Idle shares are of what rollouts
    could decode at best, of the trainer's time, and of the replicas' time (None where they are
    unlimited); `scoring` is how many responses are being scored on average. `dropped` and
    `filtered` are shares of all groups that left.
    """

    rule: str
    samples_per_second: float
    step_seconds: float
    ceiling: float
    ages: Ages
    bound: int | None
    rollout_idle: float
    trainer_idle: float
    reward_idle: float | None
    scoring: float
    dropped: float
    filtered: float


def simulate(settings: Settings, rule: Rule) -> Outcome:
    """Rollouts and trainer side by side, under `rule`."""
    run = Simulation(settings, rule)
    run.run()
    return _outcome(run, least_seconds(run))


def simulate_synchronous(settings: Settings, streamed: bool) -> Outcome:
    """All accelerators generate, then all of them train.

    Responses are verified when all are generated, or `streamed`, each when it is.
    """
    rule = SynchronousRule(streamed=streamed)
    run = Simulation(settings.together(), rule, barrier=not streamed)
    run.run()
    return _outcome(run, least_seconds_in_turn(run))


def _outcome(run: Simulation, least: float) -> Outcome:
    settings, now = run.settings, run.now
    left = Counter(group.state for group in run.groups)
    gone = left[State.TRAINED] + left[State.FILTERED] + left[State.DROPPED]
    samples = left[State.TRAINED] * settings.group_size
    capacity = settings.reward.capacity
    scoring = run.service.busy(now) / now
    busy = run.trainer.training_seconds + run.trainer.sync_seconds
    return Outcome(
        rule=run.rule.name,
        samples_per_second=samples / now,
        step_seconds=now / settings.steps,
        ceiling=samples / least,
        ages=_ages(run),
        bound=run.rule.bound(settings.prompts_per_step),
        rollout_idle=1 - run.pool.decoded / (run.pool.peak * now),
        trainer_idle=1 - busy / now,
        reward_idle=None if capacity == INFINITE else 1 - scoring / capacity,
        scoring=scoring,
        dropped=left[State.DROPPED] / gone,
        filtered=left[State.FILTERED] / gone,
    )


def _ages(run: Simulation) -> Ages:
    counted = Counter(
        group.trained - response.started
        for group in run.groups
        if group.state is State.TRAINED
        for response in group.responses
    )
    return Ages(_quantile(counted, 0.5), _quantile(counted, 0.99), max(counted))


def _quantile(counted: Counter[int], share: float) -> int:
    """The least age that at least `share` of all do not exceed."""
    wanted = ceil(share * counted.total())
    for age in sorted(counted):
        wanted -= counted[age]
        if wanted <= 0:
            return age
    raise AssertionError("nothing was trained on")
