"""Source documents: by length, until the budget is spent, none twice, and none that deceives."""

import json
import random
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from posttrain.data.longcontext.sources import Budget, FromDocuments, SplitTexts, drawn, made
from posttrain.data.longcontext.tally import Tally
from posttrain.data.longcontext.windows import buckets, level
from posttrain.data.longcontext.word_counts import word_counts
from tests.data.longcontext.samples import chat, diary

TARGET = 1024


def asked(hard: int, easy: int, *names: str) -> FromDocuments:
    return FromDocuments(
        documents=names or ("diaries",), tokenizer="t", target=TARGET,
        tokens=Budget(hard=hard, easy=easy),
    )  # fmt: skip


def test_buckets_are_the_seeds() -> None:
    assert buckets(32_768) == {"hard": (8192, 16_384), "easy": (16_384, 32_768)}
    assert buckets(262_144) == {"hard": (65_536, 131_072), "easy": (131_072, 262_144)}


@given(st.integers(0, 3000), st.sampled_from([64, 1024, 2048]))
def test_a_length_has_one_level_at_most(tokens: int, target: int) -> None:
    held = [name for name, window in buckets(target).items() if window.holds(tokens)]
    assert held == ([level(tokens, target)] if level(tokens, target) else [])


@settings(deadline=None, max_examples=15)
@given(st.integers(0, 2**31), st.integers(1, 3000), st.integers(0, 3000))
def test_the_budget_is_reached_and_no_more_is_drawn(seed: int, hard: int, easy: int) -> None:
    texts = {name: [diary(number, 4 + number % 30) for number in range(40)] for name in "ab"}
    tally = Tally(chat(), TARGET)
    found = list(drawn(texts, chat(), asked(hard, easy, "a", "b"), random.Random(seed), tally))
    longest = {"hard": TARGET // 2, "easy": TARGET}
    for name, budget in (("hard", hard), ("easy", easy)):
        lengths = [len(each.ids) for each in found if each.level == name]
        assert all(buckets(TARGET)[name].holds(length) for length in lengths)  # type: ignore[index]
        assert budget - 2 < sum(lengths) or len(lengths) > 6  # reached, or there are no more
        assert sum(lengths) < budget + 2 * longest[name] or not budget
    assert len({each.text for each in found}) >= len(found) / 2  # each source once


def test_what_cannot_be_used_is_counted() -> None:
    texts = {"diaries": [diary(0, 1), diary(1, 200), "<|user_start|>" + diary(2, 16), diary(3, 16)]}
    rows, figures = made(word_counts, texts, chat(), asked(9999, 9999), random.Random(0))
    assert len(rows) == 1
    assert figures["left_out.outside_windows"] == 2
    assert figures["left_out.control_token"] == 1
    assert figures["source_tokens.hard"] + figures.get("source_tokens.easy", 0) == len(
        chat().encode(diary(3, 16))
    )


def test_a_row_that_outgrows_its_target_is_left_out() -> None:
    days = next(n for n in range(60) if len(chat().encode(diary(0, n + 1))) >= TARGET)
    with pytest.raises(ValueError, match=r"no document of d makes a row .*left_out.too_long 1\)"):
        made(word_counts, {"d": [diary(0, days)]}, chat(), asked(0, 10**6), random.Random(0))


def test_texts_of_a_file(tmp_path: Path) -> None:
    path = tmp_path / "train.jsonl"
    rows = [{"text": "Grüezi"}, {"prompt": "a3 sum:", "continuation": " a03"}, {"messages": []}]
    path.write_text("".join(json.dumps(row, ensure_ascii=False) + "\n" for row in rows) + "{")
    texts = SplitTexts(path)
    assert (len(texts), texts[0], texts[1]) == (4, "Grüezi", "a3 sum: a03")
    for number in (2, 3):
        with pytest.raises(ValueError, match=rf"row {number + 1} of .*train.jsonl is no document"):
            texts[number]
