"""Values in transit, and how they are compared without being built."""

import math
from collections import Counter, OrderedDict, defaultdict, deque
from collections.abc import Hashable
from decimal import Decimal
from enum import IntEnum
from fractions import Fraction
from typing import Any, NamedTuple

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sandbox.judging.inside import codec
from sandbox.judging.values import equal
from sandbox.schema import Checker

NUMBERS = st.one_of(
    st.booleans(), st.integers(), st.integers(min_value=2**60), st.floats(allow_nan=False),
    st.complex_numbers(allow_nan=False), st.fractions(),
    st.decimals(allow_nan=False, places=3), st.just(Decimal("1e999")), st.just(Decimal("-0")),
)  # fmt: skip
SCALARS = st.one_of(st.none(), NUMBERS, st.text(), st.binary())
KEYS = st.recursive(
    SCALARS, lambda inner: st.one_of(st.tuples(inner), st.frozensets(inner)), max_leaves=5
)
VALUES = st.recursive(
    SCALARS,
    lambda inner: st.one_of(
        st.lists(inner),
        st.lists(inner).map(tuple),
        st.sets(KEYS),
        st.frozensets(KEYS),
        st.dictionaries(KEYS, inner),
        st.binary().map(bytearray),
    ),
    max_leaves=20,
)
SAME_OR_NOT = (
    0, 0.0, False, -0.0, Decimal(0), Fraction(0), 0j, 1, True, 1.0, Decimal("1.00"), {1}, {True},
    frozenset({1.0}), {1: 2}, {True: 2.0}, (1,), [1], "1", b"1", bytearray(b"1"), 10**30, 1e30,
    Fraction(10**30), Decimal("0.1"), Fraction(1, 10), 0.1,
)  # fmt: skip
NEAR = st.one_of(VALUES, st.sampled_from(SAME_OR_NOT))
JSON = st.recursive(
    st.one_of(st.none(), st.booleans(), st.integers(), st.floats(), st.text()),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
    max_leaves=10,
)


@given(VALUES)
def test_values_arrive_as_they_left(value: Any) -> None:
    tree = codec.checked(codec.parse(codec.write(codec.encode(value))))
    back = codec.decode(tree)
    assert back == value
    assert type(back) is type(value)


@given(NEAR, NEAR)
def test_trees_are_equal_when_values_are(left: Any, right: Any) -> None:
    trees = [codec.parse(codec.write(codec.encode(value))) for value in (left, right)]
    assert equal(*trees, "python") == (left == right)
    assert equal(trees[0], trees[0], "python")


class Liar(int):
    def __eq__(self, other: object) -> bool:
        return True

    __hash__ = int.__hash__


class Point(NamedTuple):
    x: int
    y: int


class Level(IntEnum):
    HIGH = 2


class Text(str):
    pass


@pytest.mark.parametrize(
    "value",
    [Liar(3), object(), len, deque([1]), range(3), {1: object()}, type, iter([])],
)
def test_only_exact_types_of_data_travel(value: Any) -> None:
    with pytest.raises(codec.Refused):
        codec.encode(value)


@pytest.mark.parametrize(
    ("value", "plain"),
    [(Point(1, 2), (1, 2)), (Level.HIGH, 2), (Text("x"), "x"), ([Point(1, 2)], [(1, 2)])],
)
def test_subclasses_without_an_equality_of_their_own_travel_by_value(
    value: Any, plain: Any
) -> None:
    back = codec.decode(codec.encode(value))
    assert (back, type(back)) == (plain, type(plain))


def test_dictionaries_of_the_library_travel_as_plain_ones() -> None:
    for value in (OrderedDict(a=2, b=1), defaultdict(int, a=2, b=1)):
        back = codec.decode(codec.encode(value))
        assert (back, type(back)) == ({"a": 2, "b": 1}, dict)


def test_a_counter_stays_one_and_equals_a_dictionary() -> None:
    tree = codec.encode(Counter("aab"))
    assert type(codec.decode(codec.checked(tree))) is Counter
    assert equal(codec.encode({"a": 2, "b": 1}), tree, "python")
    with pytest.raises(codec.Refused):
        codec.checked(["n", "a"])


def test_what_is_too_deep_is_refused_at_both_ends() -> None:
    value: Any = 1
    for _ in range(codec.DEPTH + 1):
        value = [value]
    with pytest.raises(codec.Refused, match="too deep"):
        codec.encode(value)
    cyclic: list[Any] = []
    cyclic.append(cyclic)
    with pytest.raises(codec.Refused, match="too deep"):
        codec.encode(cyclic)
    tree: Any = 1
    for _ in range(codec.DEPTH + 1):
        tree = ["l", tree]
    for read in (codec.checked, codec.decode):
        with pytest.raises(codec.Refused, match="too deep"):
            read(tree)


@pytest.mark.parametrize(
    "message",
    [
        b"", b"{", b"\xff", b"nul", b"[" * 5000 + b"]" * 5000, b'"' + b"x" * codec.BYTES + b'"',
        b"[" + b"0," * codec.NODES + b"0]", b"1" * 5000,
    ],
)  # fmt: skip
def test_hostile_messages_are_refused(message: bytes) -> None:
    with pytest.raises(codec.Refused):
        codec.parse(message)


@pytest.mark.parametrize(
    "tree",
    [
        [], [1], {}, {"l": 1}, ["z", 1], ["ls", 1], ["", 1], ["o", 1], ["i"], ["i", 5], ["i", "zz"],
        ["i", "1", "2"], ["b", 5], ["b", "zz"], ["c", 1], ["c", "x", 1], ["d", 1], ["D", "x"],
        ["D", "1" * 5000], ["D", 1.5], ["F", "1"], ["F", "1", "0"], ["l", ["q"]], ["l", {}],
    ],
)  # fmt: skip
def test_malformed_trees_are_refused(tree: Any) -> None:
    for read in (codec.checked, codec.decode):
        with pytest.raises(codec.Refused):
            read(tree)


@given(JSON)
def test_any_json_is_data_or_refused(tree: Any) -> None:
    """Also what passes can be compared, with anything."""
    try:
        codec.checked(tree)
    except codec.Refused:
        return
    assert equal(tree, 0, "json") in (True, False)
    assert equal(["l", tree], ["l", tree], "python") in (True, False)


def test_sets_of_colliding_numbers_are_compared_at_once() -> None:
    """Multiples of 2**61 - 1 share one hash: a set of them would take hours to build."""
    numbers = [hex(at * (2**61 - 1)) for at in range(1, 50_001)]
    tree = ["s", *[["i", number] for number in numbers]]
    assert equal(tree, ["s", *reversed(tree[1:])], "python")


@pytest.mark.parametrize(
    ("expected", "got", "same"),
    [
        ([1, 2], (1, 2), True), ([[1, 2]], [(1, 2)], True), ([1], [[1]], False), (1, True, False),
        (True, 1, False), (2, 2.0, True), (2, 2.5, False), (None, None, True), (None, 0, False),
        ("1", 1, False), ({"1": 2}, {1: 2}, True), ({"a": 1}, {"a": 1, "b": 2}, False),
        ([1, 2], {1, 2}, False), ("a", b"a", False), (0.3, 0.1 + 0.2, False),
    ],
)  # fmt: skip
def test_expectations_in_json(expected: Any, got: Any, same: bool) -> None:
    assert equal(codec.encode(expected), codec.encode(got), "json") is same


@pytest.mark.parametrize(
    ("expected", "got", "same"),
    [
        (0.3, 0.1 + 0.2, True), ([1.0, {"a": 2}], [1.0000001, {"a": 2.0000001}], True),
        (1.0, 1.1, False), (1.0, math.nan, False), (math.inf, 1e308, False), (1.0, True, False),
        (1.0, "1.0", False), (10**400, 10**400, True), (10**400, 1.0, False),
    ],
)  # fmt: skip
def test_a_tolerance_is_for_numbers_alone(expected: Any, got: Any, same: bool) -> None:
    checker = Checker(type="float")
    assert equal(codec.encode(expected), codec.encode(got), "json", checker) is same


@pytest.mark.parametrize("value", [math.nan, Decimal("NaN"), Decimal("sNaN"), complex(math.nan, 0)])
def test_what_is_no_number_equals_nothing(value: Hashable) -> None:
    tree = codec.encode(value)
    assert not equal(tree, tree, "python")
    assert not equal(["s", tree], ["s", tree], "json")


def test_a_fraction_that_takes_long_to_reduce_is_refused() -> None:
    """The service once stood still over it: that takes the square of its digits."""
    with pytest.raises(codec.Refused):
        codec.checked(["F", hex(3**10**6), hex(7**10**6)])
    assert codec.checked(["F", "0x3", "0x4"]) == ["F", "0x3", "0x4"]
