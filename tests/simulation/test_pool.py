"""The pool against the same machine advanced a sequence at a time."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from posttrain.simulation.decoding import INFINITE, DecodeConfig, Pool
from posttrain.simulation.group import Group, Response

SPEED = DecodeConfig(seconds=0.5, seconds_per_sequence=0.25)


def ends(tokens: list[int], slots: int) -> list[float]:
    """When each sequence ends, worked out step by step."""
    left = dict(enumerate(tokens[:slots]))
    waiting = list(enumerate(tokens))[slots:]
    now, found = 0.0, [0.0] * len(tokens)
    while left:
        least = min(left.values())
        now += least * SPEED.at(len(left))
        for number in [n for n, more in left.items() if more == least]:
            found[number] = now
        left = {n: more - least for n, more in left.items() if more > least}
        while waiting and len(left) < slots:
            number, more = waiting.pop(0)
            left[number] = more
    return found


@given(st.lists(st.integers(1, 30), min_size=1, max_size=12), st.integers(1, 5))
def test_sequences_end_when_they_would_one_by_one(tokens: list[int], slots: int) -> None:
    pool = Pool(SPEED, replicas=1, slots=slots)
    group = Group(0, 0, flat=False)
    responses = [Response(group, each, 0.0) for each in tokens]
    pool.waiting.extend(responses)
    pool.start(0.0, version=0)
    found = {}
    while pool.due < INFINITE:
        now = pool.due
        found[id(pool.finish(now))] = now
        pool.release()
        if pool.due > now:  # Slots that become free together are given away together.
            pool.start(now, version=0)
    assert [found[id(each)] for each in responses] == pytest.approx(ends(tokens, slots))
    assert pool.decoded == pytest.approx(sum(tokens))


def test_a_pause_delays_by_its_length() -> None:
    pool = Pool(SPEED, replicas=1, slots=1)
    pool.waiting.append(Response(Group(0, 0, flat=False), 8, 0.0))
    pool.start(0.0, version=3)
    pool.pause(2.0)
    assert pool.due == INFINITE
    pool.resume(5.0)
    assert pool.due == pytest.approx(8 * 0.75 + 3)
    assert pool.finish(pool.due).started == 3


def test_speeds_between_the_points_of_a_table() -> None:
    decode = DecodeConfig(seconds_by_live={2: 1.0, 4: 3.0})
    assert [decode.at(live) for live in (1, 2, 3, 4, 9)] == [1.0, 1.0, 2.0, 3.0, 3.0]


def test_replicas_share_the_load() -> None:
    one, two = Pool(SPEED, 1, 8), Pool(SPEED, 2, 4)
    assert two.free == one.free
    assert two.peak == pytest.approx(2 * 4 / SPEED.at(4))


@pytest.mark.parametrize("wrong", [{}, {"seconds": 1, "seconds_by_live": {1: 1}}])
def test_a_speed_is_given_once(wrong: dict[str, object]) -> None:
    with pytest.raises(ValueError, match="either seconds or seconds_by_live"):
        DecodeConfig.model_validate(wrong)
