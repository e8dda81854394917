"""Sources on their own: those that lose too much are dropped, those that give too little told."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from posttrain.rl.account import Account, Prompt
from posttrain.rl.sources import ENOUGH, JUDGED, WINDOW, Balance, Faults

SHARES = {"a": 0.5, "b": 0.5}


def _account() -> Account:
    found = Account()
    found.apply({"event": "begun", "prompts_per_step": 20, "group": 1, "seed": 0})
    return found


def _steps(balance: Balance, account: Account, a: int, b: int, count: int, **ended: int) -> None:
    for _ in range(count):
        for source, trained in (("a", a), ("b", b)):
            counts = account.by_source.setdefault(source, type(account.counts)())
            counts["trained"] += trained
        for state, more in ended.items():
            account.by_source["b"][state.replace("_", ".")] += more
        balance.step(account)


@given(st.lists(st.booleans(), max_size=200), st.sampled_from([0.0, 0.1, 0.5, 1.0]))
def test_a_source_is_dropped_once_and_only_above_its_limit(lost: list[bool], limit: float) -> None:
    faults = Faults({"a": limit})
    told = []
    for count, each in enumerate(lost, start=1):
        faults.add("a", each)
        recent = lost[max(0, count - JUDGED) : count]
        above = sum(recent) > limit * max(len(recent), ENOUGH)
        found = faults.excess()
        assert bool(found) == (above and not told)
        told += found.values()
    assert len(told) <= 1


def test_sources_without_a_limit_are_not_judged_apart() -> None:
    faults = Faults({"a": 0.5})
    assert faults.limited("a")
    assert not faults.limited("b")


def test_a_step_tells_what_each_source_gave_in_it() -> None:
    account = _account()
    balance = Balance(SHARES, account)
    _steps(balance, account, a=3, b=1, count=2)
    account.by_source["a"].update(trained=2, filtered=5)
    assert balance.step(account) == {
        "trained.a": 2.0, "filtered.a": 5.0, "trained.b": 0.0, "filtered.b": 0.0
    }  # fmt: skip


def test_a_resumed_run_counts_from_where_it_resumed() -> None:
    account = _account()
    _steps(Balance(SHARES, account), account, a=3, b=1, count=2)
    resumed = Balance(SHARES, account)
    account.by_source["a"]["trained"] += 1
    assert resumed.step(account)["trained.a"] == 1.0


@pytest.mark.parametrize(
    ("ended", "holder"),
    [
        ({"filtered": 3}, "equal_rewards"),
        ({"dropped_stale": 2, "filtered": 1}, "staleness"),
        ({"dropped_fault": 2}, "faults"),
        ({}, "order"),
    ],
)
def test_a_starved_source_is_told_with_who_holds_it_up(ended: dict[str, int], holder: str) -> None:
    account = _account()
    balance = Balance(SHARES, account)
    _steps(balance, account, a=18, b=4, count=WINDOW, **ended)
    [starved] = balance.starved(account)
    assert (starved.source, starved.holder) == ("b", holder)
    assert starved.part == pytest.approx(4 / 22)
    assert "source b is 18% of what was trained in the last 8 steps" in str(starved)


@pytest.mark.parametrize(
    ("state", "holder"),
    [("queued", "rollouts"), ("generating", "rollouts"), ("verifying", "verifier"),
     ("ready", "trainer")],
)  # fmt: skip
def test_prompts_in_flight_tell_who_is_waited_for(state: str, holder: str) -> None:
    account = _account()
    balance = Balance(SHARES, account)
    _steps(balance, account, a=18, b=2, count=WINDOW)
    for number in range(3):
        account.apply({"event": "issued", "prompt": number, "row": 0, "source": "b", "version": 0})
        account.prompts[number] = Prompt(0, "b", 0, state)
    assert [starved.holder for starved in balance.starved(account)] == [holder]


def test_no_alarm_before_a_whole_window_nor_at_half_of_the_share() -> None:
    account = _account()
    balance = Balance(SHARES, account)
    _steps(balance, account, a=18, b=1, count=WINDOW - 1)
    assert balance.starved(account) == []
    other = _account()
    fair = Balance(SHARES, other)
    _steps(fair, other, a=15, b=5, count=WINDOW)
    assert fair.starved(other) == []


def test_of_a_dropped_source_nothing_is_expected_and_more_of_the_others() -> None:
    account = _account()
    balance = Balance({"a": 0.25, "b": 0.5, "c": 0.25}, account)
    balance.drop("b")
    _steps(balance, account, a=19, b=0, count=WINDOW)
    account.by_source.setdefault("c", type(account.counts)())
    assert [(starved.source, starved.share) for starved in balance.starved(account)] == [("c", 0.5)]


def _resumed() -> Account:
    """The account of a run that goes on from a checkpoint, and had dropped `b` before that."""
    found = _account()
    found.apply({"event": "source_dropped", "source": "b", "why": "faults", "step": 1})
    return found


def test_a_resumed_run_drops_no_source_again_for_what_was_under_way() -> None:
    faults = Faults({"a": 0.0, "b": 0.0}, _resumed().dropped_sources)
    faults.add("b", lost=True)
    assert faults.excess() == {}
    faults.add("a", lost=True)
    assert faults.excess().keys() == {"a"}


def test_a_resumed_run_expects_nothing_of_a_source_dropped_before() -> None:
    account = _resumed()
    balance = Balance(SHARES, account)
    _steps(balance, account, a=20, b=0, count=WINDOW)
    assert balance.starved(account) == []
