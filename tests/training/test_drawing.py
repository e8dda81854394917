"""What SFT draws: bins as facts.md 4.2 has them, epochs of bins, and what becomes of long rows."""

from collections import Counter
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from posttrain.data.chat import Rendered
from posttrain.data.mixture import Mixture, OnExhausted, Part
from posttrain.data.packing import PackingConfig
from posttrain.training import drawing
from posttrain.training.drawing import Sources, fit, packed, planned
from tests.training.conftest import World, read

ANY = PackingConfig(documents=64)
SPLIT = PackingConfig(documents=64, oversize="split")


def _documents(*lengths: int) -> list[Rendered]:
    return [Rendered([1] + [9] * (n - 1), [0] + [1] * (n - 1)) for n in lengths]


def test_bins_are_those_of_the_reference_vector() -> None:
    bins = packed(_documents(6, 5, 4, 3, 2), 8, ANY)
    assert [[len(each.ids) for each in one] for one in bins] == [[6, 2], [5, 3], [4]]


def test_a_bin_holds_no_more_documents_than_it_may() -> None:
    bins = packed(_documents(*[2] * 7), 100, PackingConfig(documents=3))
    assert [len(one) for one in bins] == [3, 3, 1]


@given(st.integers(2, 100), st.integers(2, 30), st.data())
def test_what_is_split_is_whole_but_for_first_targets(
    length: int, capacity: int, data: st.DataObject
) -> None:
    mask = [
        0,
        *data.draw(st.lists(st.sampled_from([0, 1]), min_size=length - 1, max_size=length - 1)),
    ]
    row = Rendered(list(range(length)), mask)
    parts = list(fit(row, capacity, SPLIT))
    assert all(len(part.ids) <= capacity and any(part.mask) and not part.mask[0] for part in parts)
    kept = {token for part in parts for token, bit in zip(part.ids, part.mask, strict=True) if bit}
    wanted = {at for at, bit in enumerate(mask) if bit and at % capacity}
    assert kept == wanted


def test_truncation_keeps_the_beginning_and_refuses_none() -> None:
    (row,) = _documents(9)
    (cut,) = fit(row, 4, PackingConfig(documents=1, oversize="truncate"))
    assert cut == Rendered(row.ids[:4], row.mask[:4])
    without = Rendered([1] * 9, [0] * 8 + [1])
    assert list(fit(without, 4, PackingConfig(documents=1, oversize="truncate"))) == []


def _mixture(steps: int, batch: int, on_exhausted: OnExhausted = "repeat") -> Mixture:
    return Mixture({"only": Part(share=1.0)}, "tokens", on_exhausted, steps * batch, batch)


def test_an_epoch_is_every_bin_in_a_new_order() -> None:
    bins = packed(_documents(*range(3, 40)), 64, ANY)
    plan = planned(Sources({"only": bins}, 64), _mixture(2 * len(bins), 1), seed=3)
    order = [place.row for batch in plan for place in batch]
    first, second = order[: len(bins)], order[len(bins) :]
    assert Counter(first) == Counter(second) == Counter(range(len(bins)))
    assert first != second
    assert plan == planned(Sources({"only": bins}, 64), _mixture(2 * len(bins), 1), seed=3)


def test_one_epoch_of_bins_ends_the_run() -> None:
    bins = packed(_documents(*[30] * 10), 64, ANY)
    plan = planned(Sources({"only": bins}, 64), _mixture(9, 2, "stop"), seed=3)
    assert len(plan) == 2


def test_what_was_seen_tells_the_fill() -> None:
    bins = packed(_documents(6, 5, 4, 3, 2), 8, ANY)
    sources = Sources({"only": bins}, 8)
    facts = drawing.seen(planned(sources, _mixture(3, 1), 1), sources)
    assert facts["packing_fill"] == pytest.approx(20 / 24)
    assert facts["tokens"] == 20
    assert facts["optimised_tokens"] == 15
    assert facts["epochs"] == {"only": 1.0}


def test_a_bin_has_room_for_the_context_and_one_label(world: World) -> None:
    path = world.dialogues / "train.jsonl"
    found = drawing.read({"dialogues": path}, world.tokenizer, 128, ANY)
    assert found.capacity == 129
    documents = [each for one in found.examples["dialogues"] for each in one]
    assert len(documents) == len(read(path))
    apart = drawing.read({"dialogues": path}, world.tokenizer, 128, None)
    assert sorted(each.ids for each in documents) == sorted(
        each.ids for (each,) in apart.examples["dialogues"]
    )


def test_a_row_beyond_a_bin_is_refused_unless_told_otherwise(world: World) -> None:
    data: dict[str, Path] = {"dialogues": world.dialogues / "train.jsonl"}
    with pytest.raises(ValueError, match=r"row \d+ of train\.jsonl .* has \d+ tokens"):
        drawing.read(data, world.tokenizer, 30, ANY)
    found = drawing.read(data, world.tokenizer, 30, SPLIT)
    assert all(drawing.length(one) <= 31 for one in found.examples["dialogues"])


def test_tokens_that_are_not_to_be_learned_are_no_targets(world: World) -> None:
    data = {"dialogues": world.dialogues / "train.jsonl"}
    whole = drawing.read(data, world.tokenizer, 512, None)
    masked = drawing.read(data, world.tokenizer, 512, None, ["<|tools_prefix|>"])
    (prefix,) = world.tokenizer.convert_tokens_to_ids(["<|tools_prefix|>"])
    changed = 0
    for (plain,), (without,) in zip(
        whole.examples["dialogues"], masked.examples["dialogues"], strict=True
    ):
        assert plain.ids == without.ids
        at = [index for index, token in enumerate(plain.ids) if token == prefix]
        expected = [0 if index in at else m for index, m in enumerate(plain.mask)]
        assert list(without.mask) == expected
        changed += sum(plain.mask) - sum(without.mask)
    assert changed > 0
    with pytest.raises(ValueError, match="lacks the tokens <none>, not to be learned"):
        drawing.read(data, world.tokenizer, 512, None, ["<none>"])
