import itertools
from collections import Counter

from hypothesis import given
from hypothesis import strategies as st

from posttrain.training.batches import Place, batches, in_order, micro_batch_size, shuffled

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


@given(
    lengths=st.lists(st.integers(1, 90), min_size=1, max_size=60),
    steps=st.integers(1, 12), size=st.integers(1, 8), window=st.integers(1, 5),
)  # fmt: skip
def test_batches_take_a_window_s_rows_and_sort_them(
    lengths: list[int], steps: int, size: int, window: int
) -> None:
    made = batches(
        in_order("a", len(lengths)), {"a": lengths},
        steps=steps, size=size, window=window, seed=0,
    )  # fmt: skip
    assert len(made) == steps
    whole = steps // window * window
    for start in range(0, whole, window):
        rows = [place.row for batch in made[start : start + window] for place in batch]
        first = start * size
        expected = [(first + offset) % len(lengths) for offset in range(size * window)]
        assert sorted(rows) == sorted(expected)
    for batch in made:
        assert [lengths[p.row] for p in batch] == sorted(lengths[p.row] for p in batch)


def test_a_batch_depends_on_its_number_alone() -> None:
    targets, lengths = {"a": [1] * 40}, {"a": list(range(1, 41))}

    def made(steps: int) -> list[list[Place]]:
        places = shuffled(targets, {"a": 1.0}, 0)
        return batches(places, lengths, steps=steps, size=4, window=2, seed=0)

    assert made(20)[:7] == made(7)


@given(st.lists(st.integers(1, 4000), min_size=1, max_size=48))
def test_a_micro_batch_divides_the_batch(lengths: list[int]) -> None:
    assert len(lengths) % micro_batch_size(sorted(lengths)) == 0


def test_like_lengths_stay_together_and_unlike_ones_part() -> None:
    assert micro_batch_size([30] * 32) == 32
    assert micro_batch_size([30] * 16 + [900] * 16) == 16
