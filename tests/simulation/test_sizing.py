"""The searches find what looking at every choice finds."""

from typing import Any

import pytest

from posttrain.simulation.outcome import Outcome, simulate
from posttrain.simulation.settings import Settings
from posttrain.simulation.sizing import LOSS, best_split, replicas_needed
from tests.simulation.cases import made

SIZED: dict[str, Any] = {
    "steps": 10,
    "prompts_per_step": 16,
    "length_tokens": {"median": 20, "p99": 200},
    "rollout": {"accelerators": 6, "slots_per_replica": 4, "decode": {"seconds": 0.1}},
}


def rate(settings: Settings) -> Outcome:
    return simulate(settings, settings.rules[0])


@pytest.mark.parametrize("seconds", [0.5, 8, 40])
@pytest.mark.parametrize("per_replica", [1, 2])
def test_the_best_split_is_the_best_of_all(seconds: float, per_replica: int) -> None:
    rollout = {**SIZED["rollout"], "per_replica": per_replica}
    trainer = {"accelerators": 4, "step_seconds": seconds}
    settings = made(**{**SIZED, "rollout": rollout}, trainer=trainer)
    trainers = range(1, 10) if per_replica == 1 else range(2, 10, 2)
    rates = {count: rate(settings.split(count)).samples_per_second for count in trainers}
    found = best_split(settings, settings.rules[0])
    assert sum(found) == 10
    assert rates[found[0]] >= 0.98 * max(rates.values())


def with_replicas(settings: Settings, replicas: int | None) -> float:
    reward = settings.reward.model_copy(update={"replicas": replicas})
    return rate(settings.model_copy(update={"reward": reward})).samples_per_second


@pytest.mark.parametrize("latency", [0.01, 1.0, 6.0])
def test_the_replicas_needed_are_the_fewest_that_do(latency: float) -> None:
    reward = {"latency_seconds": {"median": latency, "p99": 4 * latency}}
    settings = made(**SIZED, reward=reward)
    needed = replicas_needed(settings, rate)
    wanted = (1 - LOSS) * with_replicas(settings, None)
    assert with_replicas(settings, needed) >= wanted
    assert needed == 1 or with_replicas(settings, needed - 1) < wanted


def test_no_replicas_are_needed_for_verdicts_that_take_no_time() -> None:
    assert replicas_needed(made(), rate) == 0


def test_more_at_once_takes_fewer_replicas() -> None:
    reward = {"latency_seconds": 3.0}
    one = replicas_needed(made(**SIZED, reward=reward), rate)
    four = replicas_needed(made(**SIZED, reward={**reward, "at_once": 4}), rate)
    assert one / 4 <= four < one
