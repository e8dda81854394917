"""Runs that can be worked out by hand."""

from typing import Any

import pytest

from posttrain.simulation.engine import Simulation
from posttrain.simulation.outcome import Outcome, simulate, simulate_synchronous
from posttrain.simulation.settings import Settings
from tests.simulation.cases import made


def seconds(settings: Settings) -> float:
    run = Simulation(settings, settings.rules[0])
    run.run()
    return run.now


def outcome(**changes: Any) -> Outcome:
    settings = made(**changes)
    return simulate(settings, settings.rules[0])


def test_synchronous_phases_add_up() -> None:
    # 1 s of generation, 3 s of training on twice the accelerators, 0.5 s of sync.
    assert simulate_synchronous(made(), streamed=True).step_seconds == pytest.approx(3.0)


def test_asynchronous_phases_overlap() -> None:
    # The first batch takes 1 s; from then on the trainer never waits.
    assert seconds(made()) == pytest.approx(1 + 4 * 3.5)


def test_where_rollouts_are_slow_the_trainer_waits_for_them() -> None:
    slow = made(rollout={"accelerators": 1, "slots_per_replica": 4, "decode": {"seconds": 1}})
    # Four groups by 10 s, two steps by 17 s. Two groups issued at 13.5 s are halted once and there
    # at 24 s; two issued at 17 s are there at 27 s, before the third step's sync has ended.
    assert seconds(slow) == pytest.approx(27.5 + 3.5)


def test_verification_is_waited_for_once_a_batch_or_hidden() -> None:
    slow: dict[str, Any] = {"reward": {"latency_seconds": 0.3}}
    assert simulate_synchronous(made(**slow), streamed=True).step_seconds == pytest.approx(3.3)
    assert simulate_synchronous(made(**slow), streamed=False).step_seconds == pytest.approx(3.3)
    assert seconds(made(**slow)) == pytest.approx(1.3 + 4 * 3.5)


def test_streamed_verification_overlaps_with_generation() -> None:
    changes: dict[str, Any] = {
        "prompts_per_step": 4,
        "rollout": {"accelerators": 1, "slots_per_replica": 1, "decode": {"seconds": 0.1}},
        "reward": {"latency_seconds": 0.5, "replicas": 1},
    }
    # Two replicas generate 2 + 2 groups in 2 s; one verifies each in 0.5 s.
    streamed = simulate_synchronous(made(**changes), streamed=True)
    plain = simulate_synchronous(made(**changes), streamed=False)
    assert streamed.step_seconds == pytest.approx(2 + 2 * 0.5 + 1.5 + 0.5)
    assert plain.step_seconds == pytest.approx(2 + 4 * 0.5 + 1.5 + 0.5)


def test_a_full_service_slows_generation_and_loses_nothing() -> None:
    reward = {"latency_seconds": 4, "replicas": 1}
    narrow = {"accelerators": 1, "slots_per_replica": 1, "decode": {"seconds": 0.1}}
    free, full = (outcome(rollout=narrow, reward={**reward, "queue": queue}) for queue in (None, 0))
    assert full.samples_per_second == pytest.approx(free.samples_per_second, rel=0.1)
    assert full.rollout_idle >= free.rollout_idle
    assert full.reward_idle == pytest.approx(0, abs=0.1)


def test_what_is_in_flight_is_resumed_or_finished_before_a_sync() -> None:
    tail: dict[str, Any] = {"length_tokens": {"counts": {1: 3, 400: 1}}, "steps": 20}
    resumed = outcome(**tail)
    finished = outcome(**tail, sync={"seconds": 0.5, "in_flight": "finish"})
    assert finished.samples_per_second < resumed.samples_per_second
    assert finished.ages.most <= resumed.ages.most


def test_updates_begin_before_the_whole_batch_is_there() -> None:
    narrow: dict[str, Any] = {
        "rollout": {"accelerators": 1, "slots_per_replica": 1, "decode": {"seconds": 0.1}},
        "rules": [{"rule": "count", "staleness": 0}],
        "steps": 1,
    }
    assert seconds(made(**narrow)) == pytest.approx(2 + 3 + 0.5)
    # The second half is generated while the first is trained on.
    assert seconds(made(**narrow, updates_per_step=2)) == pytest.approx(1 + 1.5 + 1.5 + 0.5)


def test_a_trainer_that_polls_begins_at_its_next_look() -> None:
    assert seconds(made(steps=1, poll_seconds=0.7)) == pytest.approx(1.4 + 3.5)


def test_groups_of_equal_rewards_are_replaced() -> None:
    filtered = outcome(equal_rewards=0.5, steps=100, prompts_per_step=8)
    assert filtered.filtered == pytest.approx(0.5, abs=0.05)
    assert filtered.dropped == 0


def test_idle_shares() -> None:
    found = outcome(reward={"latency_seconds": 0.5, "replicas": 2})
    # 15.5 s in all, of which the trainer waits 1.5 for the first batch.
    assert found.trainer_idle == pytest.approx(1.5 / 15.5)
    assert found.reward_idle is not None
    assert found.scoring == pytest.approx(2 * (1 - found.reward_idle))
    assert 0 < found.rollout_idle < 1


def test_a_split_keeps_the_work() -> None:
    settings = made(trainer={"accelerators": 2, "step_seconds": 3})
    assert settings.accelerators == 3
    other = settings.split(1)
    assert (other.trainer.step_seconds, other.rollout.accelerators) == (6, 2)


def test_what_is_measured_of_the_baseline_is_used() -> None:
    given = {"step_seconds": 2, "sync_seconds": 0, "decode": {"seconds": 0.2}}
    assert simulate_synchronous(made(synchronous=given), streamed=True).step_seconds == 4
