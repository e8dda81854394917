import itertools
import random
from collections import Counter

from hypothesis import given
from hypothesis import strategies as st

from posttrain.training.batches import Place, shuffled

TARGETS = st.lists(st.integers(1, 60), min_size=1, max_size=30)


def _take(count: int, targets: dict[str, list[int]], shares: dict[str, float]) -> list[Place]:
    return list(itertools.islice(shuffled(targets, shares, seed=1), count))


@given(long=TARGETS, short=TARGETS, share=st.floats(0.05, 0.95))
def test_each_source_gives_its_share_of_the_targets(
    long: list[int], short: list[int], share: float
) -> None:
    targets = {"long": long, "short": short}
    given_so_far: Counter[str] = Counter()
    for place in _take(200, targets, {"long": share, "short": 1 - share}):
        given_so_far[place.source] += targets[place.source][place.row]
    total = given_so_far.total()
    # The last example drawn can overshoot its source's share, by no more than its own targets.
    assert abs(given_so_far["long"] - share * total) <= max(long + short)


@given(targets=TARGETS, epochs=st.integers(1, 4))
def test_an_epoch_has_every_row_once(targets: list[int], epochs: int) -> None:
    rows = [place.row for place in _take(epochs * len(targets), {"a": targets}, {"a": 1.0})]
    assert Counter(rows) == dict.fromkeys(range(len(targets)), epochs)


def test_epochs_and_seeds_differ() -> None:
    both = _take(60, {"a": [1] * 30}, {"a": 1.0})
    first, second = both[:30], both[30:]
    other = list(itertools.islice(shuffled({"a": [1] * 30}, {"a": 1.0}, seed=2), 30))
    assert first != second
    assert first != other


@given(long=TARGETS, short=TARGETS, share=st.floats(0.05, 0.95), seed=st.integers(0, 9))
def test_without_a_supply_the_draws_are_those_of_every_earlier_run(
    long: list[int], short: list[int], share: float, seed: int
) -> None:
    targets, shares = {"long": long, "short": short}, {"long": share, "short": 1 - share}
    found = list(itertools.islice(shuffled(targets, shares, seed), 150))
    given_so_far = dict.fromkeys(sorted(shares), 0)
    orders: dict[str, list[int]] = {"long": [], "short": []}
    epochs = dict.fromkeys(shares, 0)
    for place in found:
        name = min(given_so_far, key=lambda each: given_so_far[each] / shares[each])
        if not orders[name]:
            orders[name] = list(range(len(targets[name])))
            random.Random(f"{seed}/{name}/{epochs[name]}").shuffle(orders[name])
            epochs[name] += 1
        row = orders[name].pop(0)
        given_so_far[name] += targets[name][row]
        assert place == Place(name, row)


@given(long=TARGETS, short=TARGETS, supply=st.integers(1, 40))
def test_a_spent_source_ends_all_or_leaves_its_share_to_the_others(
    long: list[int], short: list[int], supply: int
) -> None:
    targets, shares = {"long": long, "short": short}, {"long": 0.5, "short": 0.5}
    limits = {"long": supply, "short": 50}
    endless = list(itertools.islice(shuffled(targets, shares, 1), 300))
    stopped = list(shuffled(targets, shares, 1, limits))
    assert stopped == endless[: len(stopped)]
    assert Counter(place.source for place in stopped)[endless[len(stopped)].source] in (supply, 50)
    whole = list(shuffled(targets, shares, 1, limits, reweight=True))
    assert whole[: len(stopped)] == stopped
    assert Counter(place.source for place in whole) == limits
