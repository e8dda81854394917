"""Mixtures: what is forecast is what is drawn, and nothing gives more than it has."""

from collections import Counter
from itertools import islice
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import TypeAdapter, ValidationError

from posttrain.data.mixture import (
    Forecasts,
    Mixture,
    OnExhausted,
    Part,
    PartField,
    Size,
    checked,
    forecast,
    needs_tokens,
    shares,
    supply,
    told,
)
from posttrain.training.batches import shuffled

PART: TypeAdapter[Part] = TypeAdapter(PartField)
SIZES = st.lists(st.integers(1, 9), min_size=1, max_size=40)


@pytest.mark.parametrize(
    ("written", "share", "epochs", "kept"),
    [
        ("60%", 0.6, 1, 0.6),
        (0.25, 0.25, 1, 0.25),
        ("2 epochs", None, 2, {"share": None, "epochs": 2.0}),
        ("0.5 epoch", None, 0.5, {"share": None, "epochs": 0.5}),
        ({"share": "60%", "epochs": 2}, 0.6, 2, {"share": 0.6, "epochs": 2.0}),
    ],
)
def test_a_part_is_a_share_or_epochs_or_both(
    written: Any, share: float | None, epochs: float, kept: Any
) -> None:
    part = PART.validate_python(written)
    assert (part.share, part.epochs) == (share, epochs)
    assert PART.dump_python(part) == kept
    assert PART.validate_python(kept) == part


@pytest.mark.parametrize("wrong", ["0%", "0 epochs", "-1 epochs", "2 epoch s", {"weight": 1}, 1.5])
def test_what_is_no_part_is_refused(wrong: Any) -> None:
    with pytest.raises(ValidationError):
        PART.validate_python(wrong)


def test_shares_are_stated_by_all_or_by_none() -> None:
    half = Part(share=0.5)
    checked({"a": half, "b": half})
    checked({"a": Part(epochs=2), "b": Part()})
    with pytest.raises(ValueError, match=r"add up to 100%, got a 50%, b none"):
        checked({"a": half, "b": Part()})
    with pytest.raises(ValueError, match=r"got a 50%$"):
        checked({"a": half})


def test_without_shares_each_gives_by_its_epochs() -> None:
    parts = {"a": Part(epochs=2), "b": Part(epochs=0.5)}
    assert shares(parts, {"a": Size(3, 30), "b": Size(9, 40)}) == {"a": 0.75, "b": 0.25}
    assert not needs_tokens(Mixture(parts, "tokens", "stop", 8, 4))


@pytest.mark.parametrize(
    ("unit", "parts", "needed"),
    [
        ("tokens", {"a": 0.5, "b": 0.5}, True),
        ("rows", {"a": 0.5, "b": 0.5}, False),
        ("tokens", {"a": 1.0}, False),
    ],
)
def test_only_shares_of_tokens_need_tokens(
    unit: Any, parts: dict[str, float], needed: bool
) -> None:
    mixed = Mixture({n: Part(share=s) for n, s in parts.items()}, unit, "stop", 8, 4)
    assert needs_tokens(mixed) == needed


def mixture(
    on_exhausted: OnExhausted, share: float, epochs: tuple[float, float], examples: int
) -> Mixture:
    parts = {
        "a": Part(share=share, epochs=epochs[0]),
        "b": Part(share=1 - share, epochs=epochs[1]),
    }
    return Mixture(parts, "tokens", on_exhausted, examples, 4)


def drawn(mixed: Mixture, sizes: dict[str, list[int]]) -> Counter[str]:
    """What the run itself would draw."""
    totals = {name: Size(len(each), sum(each)) for name, each in sizes.items()}
    limits = {name: supply(part, totals[name].rows) for name, part in mixed.parts.items()}
    places = shuffled(
        sizes, shares(mixed.parts, totals), 1,
        None if mixed.on_exhausted == "repeat" else limits,
        reweight=mixed.on_exhausted == "reweight",
    )  # fmt: skip
    return Counter(place.source for place in islice(places, mixed.examples))


def forecast_of(mixed: Mixture, sizes: dict[str, list[int]]) -> Forecasts:
    return forecast(mixed, {name: Size(len(each), sum(each)) for name, each in sizes.items()})


@given(
    a=st.tuples(st.integers(1, 40), st.integers(1, 9)),
    b=st.tuples(st.integers(1, 40), st.integers(1, 9)),
    share=st.floats(0.05, 0.95),
    epochs=st.tuples(st.sampled_from([0.5, 1.0, 2.0, 3.5]), st.sampled_from([0.5, 1.0, 2.0])),
    on_exhausted=st.sampled_from(["stop", "repeat", "reweight"]),
    examples=st.integers(4, 300),
)
def test_a_forecast_is_what_is_drawn(
    a: tuple[int, int], b: tuple[int, int], share: float, epochs: tuple[float, float],
    on_exhausted: OnExhausted, examples: int,
) -> None:  # fmt: skip
    """Of rows of one size each, but for the draw or two by which a source runs ahead."""
    sizes = {"a": [a[1]] * a[0], "b": [b[1]] * b[0]}
    mixed = mixture(on_exhausted, share, epochs, examples)
    found = forecast_of(mixed, sizes)
    real = drawn(mixed, sizes)
    # Running ahead by one row of 9 tokens holds the other back by so many of its own.
    slack = 1 + max(a[1], b[1]) / min(a[1], b[1]) + max(share, 1 - share) / min(share, 1 - share)
    for each in found.sources:
        assert abs(real[each.source] - each.rows) <= slack
        assert each.epochs == pytest.approx(each.rows / len(sizes[each.source]))
    assert abs(real.total() // 4 - found.steps) <= slack


@given(
    a=SIZES, b=SIZES, share=st.floats(0.05, 0.95),
    on_exhausted=st.sampled_from(["stop", "reweight"]), examples=st.integers(1, 300),
)  # fmt: skip
def test_no_source_gives_more_than_its_epochs(
    a: list[int], b: list[int], share: float, on_exhausted: OnExhausted, examples: int
) -> None:
    sizes = {"a": a, "b": b}
    mixed = mixture(on_exhausted, share, (1.0, 2.0), examples)
    real = drawn(mixed, sizes)
    assert real["a"] <= len(a)
    assert real["b"] <= 2 * len(b)
    if on_exhausted == "reweight":
        assert real.total() == min(examples, len(a) + 2 * len(b))
    for each in forecast_of(mixed, sizes).sources:
        assert each.epochs <= mixed.parts[each.source].epochs + 1 / len(sizes[each.source]) + 1e-6


@given(a=SIZES, b=SIZES, share=st.floats(0.05, 0.95), examples=st.integers(4, 300))
def test_shares_of_a_forecast_add_up(
    a: list[int], b: list[int], share: float, examples: int
) -> None:
    mixed = mixture("repeat", share, (1.0, 1.0), examples)
    found = forecast_of(mixed, {"a": a, "b": b})
    assert sum(each.share for each in found.sources) == pytest.approx(1)
    assert found.sources[0].share == pytest.approx(share)
    assert sum(each.rows for each in found.sources) == pytest.approx(examples)
    for each in found.sources:  # A step is told if and only if there is a whole one.
        assert (each.step is not None) <= (each.epochs >= 1 - 1e-6)


def test_the_step_of_exhaustion_is_told() -> None:
    sizes = {"a": Size(10, 10), "b": Size(1000, 1000)}
    lines = {}
    for on_exhausted in ("repeat", "stop", "reweight"):
        mixed = mixture(on_exhausted, 0.5, (1.0, 1.0), 100)
        found = forecast(mixed, sizes)
        assert found.steps == (5 if on_exhausted == "stop" else 25)
        first, second = found.sources
        assert (first.step, second.step) == (6, None)
        lines[on_exhausted] = told(first, mixed)
    assert lines == {
        "repeat": "a 50.0%: 50 rows, 5.00 epochs; exhausted after 1 epoch, in step 6: repeated",
        "stop": "a 50.0%: 10 rows, 1.00 epochs; exhausted after 1 epoch, in step 6: the run ends",
        "reweight": "a 10.0%: 10 rows, 1.00 epochs; exhausted after 1 epoch, in step 6: "
        "the others take over",
    }
