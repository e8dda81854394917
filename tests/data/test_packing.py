"""Packing against the plain statement of the rule, and what must hold of any packing."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from posttrain.data.packing import Packing, pack


def bins(packing: Packing) -> list[list[int]]:
    return [packing.bin(number).tolist() for number in range(len(packing))]


def stated(lengths: list[int], capacity: int, most: int) -> list[list[int]]:
    """Best fit decreasing, word by word."""
    found: list[list[int]] = []
    rooms: list[int] = []
    for document in sorted(range(len(lengths)), key=lambda each: -lengths[each]):
        size = lengths[document]
        fitting = [
            b for b, room in enumerate(rooms) if room >= size and room and len(found[b]) < most
        ]
        if not fitting:
            found.append([])
            rooms.append(capacity)
            fitting = [len(found) - 1]
        best = min(fitting, key=lambda b: (rooms[b], b))
        found[best].append(document)
        rooms[best] -= size
    return found


def test_the_published_example() -> None:
    """facts.md appendix A."""
    lengths = [6, 5, 4, 3, 2]
    by_length = [[lengths[each] for each in one] for one in bins(pack(lengths, 8, 64))]
    assert by_length == [[6, 2], [5, 3], [4]]


@given(st.data(), st.sampled_from([1, 3, 8, 20, 511, 512, 1100]), st.integers(1, 6))
def test_it_is_best_fit_decreasing(data: st.DataObject, capacity: int, most: int) -> None:
    lengths = data.draw(st.lists(st.integers(0, capacity), max_size=40))
    assert bins(pack(lengths, capacity, most)) == stated(lengths, capacity, most)


@given(st.lists(st.integers(0, 5000), max_size=300), st.integers(1, 70))
def test_nothing_is_lost_and_no_bin_overflows(lengths: list[int], most: int) -> None:
    packing = pack(lengths, 5000, most)
    assert sorted(packing.documents.tolist()) == list(range(len(lengths)))
    for one in bins(packing):
        assert 1 <= len(one) <= most
        assert sum(lengths[each] for each in one) <= 5000


def test_a_realistic_mix_fills_the_bins() -> None:
    draw = np.random.default_rng(0)
    lengths = np.minimum(np.exp(draw.normal(6.3, 1.1, 100_000)).astype(np.int64) + 10, 4097)
    packing = pack(lengths, 4097, 64)
    assert lengths.sum() / (4097 * len(packing)) >= 0.995


@pytest.mark.parametrize("size", [9, -1])
def test_a_document_that_fits_no_bin_is_named(size: int) -> None:
    with pytest.raises(ValueError, match=f"document 1 has {size} tokens and a bin 8"):
        pack([8, size], 8, 64)
