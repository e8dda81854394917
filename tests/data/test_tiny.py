"""The tiny generators: right answers, disjoint splits, stated lengths."""

import re
from collections import Counter
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from posttrain.data import tiny
from posttrain.data.chat import ChatFormat
from posttrain.data.tokenizer import row_texts, train_tokenizer

LISTS = re.compile(r"\ba\d(?: [b-t]\d)+")
SEEDS = st.integers(0, 2**31 - 1)


def lists(rows: list[dict[str, Any]]) -> list[str]:
    """The digits of every list asked about in `rows`."""
    texts = [row["prompt"] if "prompt" in row else row["messages"][0]["content"] for row in rows]
    found = [LISTS.search(text) for text in texts if "Notes:" not in text]
    return ["".join(re.findall(r"\d", match.group())) for match in found if match]


def answer(row: dict[str, Any]) -> str:
    """The right answer to the question of `row`, worked out from its text."""
    text = row["messages"][0]["content"]
    if asked := re.search(r"What is (\w)\?", text):
        values = re.findall(rf" {asked.group(1)}(\d)", text)
        return f"0{values[0]}"
    digits = [int(digit) for digit in re.findall(r"[a-t](\d)", text)]
    return f"{max(digits) if text.startswith('Largest') else sum(digits):02d}"


@settings(deadline=None, max_examples=30)
@given(SEEDS)
def test_train_and_holdout_share_no_list(seed: int) -> None:
    trained = [tiny.corpus(seed, 40), tiny.dialogues(seed, 40), tiny.prompts(seed, 40, 1.0)]
    trained += [tiny.formulas(seed, 40, 1.0)]
    kept = [tiny.chains(seed, 20), tiny.prompts(seed, 20, 1.0, holdout=True)]
    kept += [tiny.formulas(seed, 20, 1.0, holdout=True)]
    assert not {digits for rows in trained for digits in lists(rows) if tiny.held_out(digits)}
    assert all(tiny.held_out(digits) for rows in kept for digits in lists(rows))
    assert all(lists(rows) for rows in trained + kept)


@settings(deadline=None, max_examples=30)
@given(SEEDS)
def test_rows_repeat_with_their_seed(seed: int) -> None:
    assert tiny.dialogues(seed, 5) == tiny.dialogues(seed, 5)
    assert tiny.corpus(seed, 5) == tiny.corpus(seed, 5)
    assert tiny.prompts(seed, 5, 0.5) == tiny.prompts(seed, 5, 0.5)
    assert tiny.prompts(seed, 40, 0.5) != tiny.prompts(seed + 1, 40, 0.5)


@settings(deadline=None, max_examples=30)
@given(SEEDS)
def test_answers_are_right(seed: int) -> None:
    for row in tiny.prompts(seed, 20, 1.0) + tiny.needles(seed, 4, (64, 128)):
        assert row["gold"] == [answer(row)]
    for row in tiny.dialogues(seed, 20):
        reply = row["messages"][-1]
        if "tool_calls" in reply:
            assert reply["tool_calls"][0]["arguments"] == {"answers": [answer(row)]}


def test_thoughts_lead_to_the_answer_and_need_deliberation() -> None:
    rows = tiny.dialogues(3, 2000)
    thought = [row for row in rows if row["messages"][-1].get("thoughts")]
    assert all(row["deliberation"] for row in thought)
    assert tiny.chain("341") == "a03 b07 c08"
    assert tiny.chain("341", max) == "a03 b04 c04"
    for row in thought:
        assert row["messages"][-1]["thoughts"].endswith(answer(row))
    direct = [row for row in rows if "Add up" in str(row) and row not in thought]
    assert any(row["deliberation"] for row in direct)


def test_a_holdout_asks_nothing_twice(monkeypatch: pytest.MonkeyPatch) -> None:
    rows = tiny.prompts(1, 300, 1.0, holdout=True)
    assert Counter(row["messages"][0]["content"] for row in rows).most_common(1)[0][1] == 1
    monkeypatch.setattr(tiny, "DIGITS", "12")
    with pytest.raises(ValueError, match=r"found \d+ of 500 held-out lists"):
        tiny.chains(1, 500)


def test_documents_grow() -> None:
    rows = tiny.corpus(0, 2000)
    longest = [max(map(len, lists(part))) for part in (rows[:100], rows[1000:])]
    assert longest[0] <= 3 < longest[1] == tiny.ITEMS[1]
    assert {len(digits) for digits in lists(tiny.chains(0, 50))} == {
        tiny.ITEMS[1] - 1,
        tiny.ITEMS[1],
    }


def test_formulas_need_computing() -> None:
    rows = tiny.formulas(2, 200, 1.0)
    for row in rows:
        gold = row["gold"][0]
        plain = re.sub(r"\\frac\{(\d+)\}\{(\d+)\}", r"\1/\2", gold)
        numbers = [float(number) for number in re.findall(r"[\d.]+", plain)]
        value = numbers[0] / numbers[1] if "/" in plain else numbers[0] - sum(numbers[1:])
        assert value == int(answer(row))
        assert gold != answer(row)
        assert row["verifier"] == "math"


def test_thinking_is_the_share_with_deliberation() -> None:
    rows = tiny.prompts(0, 400, 0.25)
    assert 0.15 < sum(row["deliberation"] for row in rows) / len(rows) < 0.35


def test_lengths_are_in_tokens() -> None:
    rows = tiny.corpus(0, 3000) + tiny.dialogues(0, 3000)
    chat = ChatFormat.from_tokenizer(
        train_tokenizer((text for row in rows for text in row_texts(row)), 1024)
    )
    for length in (64, 128, 256):
        for row in tiny.needles(0, 10, (length,)):
            tokens = len(chat.render(row, add_generation_prompt=True).ids)  # type: ignore[arg-type]
            assert length - 16 <= tokens <= length
    for length in (128, 256):
        for row in tiny.long_documents(0, 10, (length,)):
            tokens = len(chat.render(row).ids)  # type: ignore[arg-type]
            assert length - 16 <= tokens <= length
