"""Counting words: counts that the document bears out, and what the loss counts."""

import random
import re
from collections import Counter

from hypothesis import given, settings
from hypothesis import strategies as st

from posttrain.data import tiny
from posttrain.data.longcontext import words
from posttrain.data.longcontext.sources import Document
from posttrain.data.longcontext.word_counts import FREQUENT, PHRASINGS, QUESTIONS, word_counts
from tests.data.longcontext.samples import chat, diary, document, learned, said

WORD = re.compile(r'"(\w+)"')


@settings(deadline=None, max_examples=20)
@given(st.integers(0, 2**31), st.sampled_from(["hard", "easy"]))
def test_counts_are_those_of_the_document(seed: int, level: str) -> None:
    text = diary(seed, 30)
    row = word_counts(chat(), document(text, level), random.Random(seed))  # type: ignore[arg-type]
    assert not isinstance(row, str)
    asked = [WORD.search(question).group(1) for question in said(row, "user")]  # type: ignore[union-attr]
    counts = [int(re.findall(r"\d+", answer)[-1]) for answer in said(row, "assistant")]
    assert len(set(asked)) == len(asked) == QUESTIONS[level]
    plain = Counter(re.findall("[a-z]+", text.lower()))
    assert counts == [plain[word] for word in asked]
    frequent = sorted(words.counted(text).values(), reverse=True)[:FREQUENT]
    assert min(counts) >= frequent[-1]


def test_the_document_and_the_answers_are_learned() -> None:
    text = diary(1, 30)
    row = word_counts(chat(), document(text, "easy"), random.Random(1))
    assert not isinstance(row, str)
    assert learned(row) == [text, *said(row, "assistant")]
    rendered = chat().render(row)  # type: ignore[arg-type]
    assert (rendered.ids[0], rendered.mask[0]) == (chat().control["<s>"], 0)
    assert rendered.ids.index(chat().control["<|system_start|>"]) == 1 + len(chat().encode(text))


def test_words_are_whole_and_say_something() -> None:
    text = "The Road, the ROADS and a road; cafés, naïve_road 4road when there would be a Über."
    assert words.counted(text) == {"road": 4, "roads": 1}


@given(st.text())
def test_any_text_can_be_counted(text: str) -> None:
    for word in words.counted(text):
        assert re.fullmatch("[a-z]{4,}", word)
        assert word not in words.STOP


def test_equally_frequent_words_count_in_their_order() -> None:
    assert list(words.counted("lake road lake mill road").most_common(2)) == [
        ("lake", 2),
        ("road", 2),
    ]


def test_ten_ways_to_ask_and_each_is_used() -> None:
    draw, texts = random.Random(0), set()
    for seed in range(20):
        row = word_counts(chat(), document(diary(seed, 30)), draw)
        assert not isinstance(row, str)
        texts |= {WORD.sub("", question) for question in said(row, "user")}
    assert len(texts) == len(PHRASINGS) == 10


def test_a_document_of_few_words_makes_no_row() -> None:
    rows = tiny.corpus(0, 200)
    short = [row["prompt"] + row["continuation"] for row in rows]
    made = [word_counts(chat(), Document(text, [], "easy"), random.Random(0)) for text in short]
    assert set(made) == {"few_words"}
    joined = word_counts(chat(), Document(" ".join(short), [], "easy"), random.Random(0))
    assert not isinstance(joined, str)
    assert len(said(joined, "user")) == 5


def test_coined_words_are_different() -> None:
    found = words.coined(random.Random(0), 5000)
    assert len(set(found)) == 5000
    assert all(re.fullmatch("([bdfgjklmnprstvz][aeiou]){3}", word) for word in found)
