"""Whatever the settings: ages keep their bound, nothing is lost, and nothing beats the ceiling."""

from collections import Counter

from hypothesis import example, given
from hypothesis import settings as profile
from hypothesis import strategies as st

from posttrain.simulation.ceiling import least_seconds, least_seconds_in_turn
from posttrain.simulation.engine import Simulation
from posttrain.simulation.group import State
from posttrain.simulation.rules import Rule, SynchronousRule
from posttrain.simulation.settings import Settings
from tests.simulation.cases import made, rule_of, rules, settings

TAILED = {"length_tokens": {"counts": {1: 6, 300: 1}}, "steps": 60}
"""A few responses take many steps, the others none."""


def ran(settings: Settings, rule: Rule) -> Simulation:
    synchronous = isinstance(rule, SynchronousRule)
    run = Simulation(
        settings.together() if synchronous else settings,
        rule,
        barrier=isinstance(rule, SynchronousRule) and not rule.streamed,
    )
    run.run()
    return run


def ages(run: Simulation) -> set[int]:
    """Of trained groups, since their issue."""
    return {g.trained - g.issued for g in run.groups if g.state is State.TRAINED}


@profile(max_examples=1500)
@given(settings(), rules)
def test_no_age_is_above_the_bound(settings: Settings, rule: Rule) -> None:
    bound = rule.bound(settings.prompts_per_step)
    run = ran(settings, rule)
    assert bound is None or max(ages(run)) <= bound
    for group in run.groups:
        if group.state is State.TRAINED:
            starts = [response.started for response in group.responses]
            assert group.issued <= min(starts) <= max(starts) <= group.trained


@profile(max_examples=1500)
@given(settings(), rules)
def test_each_prompt_is_trained_on_once_or_leaves_once_or_is_under_way(
    settings: Settings, rule: Rule
) -> None:
    run = ran(settings, rule)
    assert [group.number for group in run.groups] == list(range(len(run.groups)))
    where = Counter(group.state for group in run.groups)
    assert where[State.TRAINED] == settings.steps * settings.prompts_per_step
    steps = Counter(group.trained for group in run.groups if group.trained >= 0)
    assert steps == dict.fromkeys(range(settings.steps), settings.prompts_per_step)
    under_way = where[State.QUEUED] + where[State.FINISHED] + where[State.TAKEN]
    if not isinstance(rule, SynchronousRule):
        assert under_way == rule.limit(settings.prompts_per_step)
    for group in run.groups:
        done = group.state not in (State.QUEUED, State.FILTERED)
        assert group.flat is False if done else True
        assert (group.left == 0) or group.state is State.QUEUED
        assert len(group.responses) == settings.group_size


@profile(max_examples=1500)
@given(settings(), rules)
def test_no_run_is_faster_than_its_ceiling(settings: Settings, rule: Rule) -> None:
    run = ran(settings, rule)
    least = least_seconds_in_turn if isinstance(rule, SynchronousRule) else least_seconds
    assert run.now >= least(run) * (1 - 1e-9)


@profile(max_examples=50)
@given(settings(), rules, rules)
def test_all_rules_meet_the_same_prompts(settings: Settings, one: Rule, other: Rule) -> None:
    pairs = zip(ran(settings, one).groups, ran(settings, other).groups, strict=False)
    for here, there in pairs:
        assert here.flat == there.flat
        assert [(r.tokens, r.latency) for r in here.responses] == [
            (r.tokens, r.latency) for r in there.responses
        ]


@profile(max_examples=50)
@given(settings(), rules)
def test_the_same_settings_give_the_same_run(settings: Settings, rule: Rule) -> None:
    one, other = ran(settings, rule), ran(settings, rule)
    assert one.now == other.now
    assert [g.state for g in one.groups] == [g.state for g in other.groups]


@profile(max_examples=1000)
@given(settings(), rules, st.integers(1, 8), st.integers(1, 8))
def test_more_slots_never_cost_throughput(
    settings: Settings, rule: Rule, few: int, more: int
) -> None:
    """At a fixed length, and at a speed that does not fall with load. Where a batch does not fill
    whole rounds of slots, the order of arrival may cost a round."""
    decode = {"seconds": 0.1}
    rollout = {"accelerators": 1, "decode": decode}
    fixed = made(
        **settings.model_dump(exclude={"rules", "rollout", "length_tokens", "equal_rewards"}),
        length_tokens=20,
    )

    def seconds(slots: int) -> float:
        changed = fixed.model_dump() | {"rollout": {**rollout, "slots_per_replica": slots}}
        return ran(Settings.model_validate(changed), rule).now

    assert seconds(few + more) <= seconds(few) * 1.05 + 4.0


@given(st.integers(1, 99))
@example(1)
def test_the_synchronous_rule_has_age_0(seed: int) -> None:
    for streamed in (False, True):
        run = ran(made(**TAILED, seed=seed, equal_rewards=0.3), SynchronousRule(streamed=streamed))
        assert ages(run) == {0}


def oldest(rule: Rule, prompts: int) -> int:
    """The highest age in some runs with a long tail."""
    cases = [
        made(**TAILED, seed=seed, prompts_per_step=prompts, trainer={
            "accelerators": 1, "step_seconds": step,
        })
        for seed in range(20) for step in (0.05, 1, 8)
    ]  # fmt: skip
    return max(max(ages(ran(case, rule))) for case in cases)


def test_the_bound_of_the_windowed_rule_is_reached() -> None:
    for staleness, window, prompts in ((1, 3, 1), (2, 4, 2), (1, 5, 2), (3, 1, 2)):
        rule = rule_of(rule="windowed", staleness=staleness, window_prompts=window)
        assert oldest(rule, prompts) == rule.bound(prompts)


def test_the_count_rule_has_no_such_bound() -> None:
    assert oldest(rule_of(rule="count", staleness=1), 4) > 8


def test_waiting_as_verl_does_lets_a_group_grow_older_than_its_threshold() -> None:
    rule = rule_of(rule="verl-wait", staleness=3)
    assert 3 < oldest(rule, 2) <= 5 == rule.bound(2)


def test_dropping_as_verl_does_keeps_to_the_threshold() -> None:
    rule = rule_of(rule="verl-drop", staleness=2)
    run = ran(made(**TAILED, prompts_per_step=4), rule)
    assert max(ages(run)) == 2
    dropped = [group for group in run.groups if group.state is State.DROPPED]
    assert dropped
    assert all(max(r.tokens for r in group.responses) == 300 for group in dropped)
