"""What the rule of decontamination finds, and that every run knows how much it misses."""

import random
from collections.abc import Sequence
from difflib import SequenceMatcher
from itertools import chain

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from posttrain.data.checks import decontamination, overlap
from posttrain.data.checks.grams import Table, Tokens, grams
from posttrain.data.checks.overlap import Match, Prompts, covered
from posttrain.data.checks.planting import PROMISED
from posttrain.data.checks.rows import texts
from posttrain.data.checks.words import Encoder
from tests.data.checks.samples import chat, checked, dataset, dialogue, removed

FEW = st.lists(st.integers(0, 4), max_size=40)
TEXTS = st.lists(st.lists(st.integers(0, 9), max_size=12), max_size=8)


def prose(draw: random.Random, words: int) -> str:
    return " ".join("".join(draw.choices("abcdefghij", k=5)) for _ in range(words))


DRAW = random.Random(5)
PROMPTS = [prose(DRAW, 24) for _ in range(30)]
CLEAN = [dialogue(prose(DRAW, 20), prose(DRAW, 20), id=str(n)) for n in range(120)]
BENCHMARK = dataset([{"prompt": text} for text in PROMPTS], "exam")


def by_definition(text: Sequence[int], prompt: Sequence[int]) -> float:
    """The rule as facts.md 6.1 states it, with nothing spared."""
    size = min(overlap.GRAM, len(prompt))
    windows = {tuple(text[i : i + size]) for i in range(len(text) - size + 1)}
    if not any(tuple(prompt[i : i + size]) in windows for i in range(len(prompt) - size + 1)):
        return 0.0
    blocks = SequenceMatcher(None, text, prompt, autojunk=False).get_matching_blocks()
    return sum(block.size for block in blocks if block.size >= overlap.BLOCK) / len(prompt)


@given(FEW, FEW)
def test_blocks_are_those_of_difflib(text: list[int], prompt: list[int]) -> None:
    blocks = SequenceMatcher(None, text, prompt, autojunk=False).get_matching_blocks()
    assert covered(text, prompt) == sum(block.size for block in blocks if block.size >= 5)


@given(TEXTS, st.integers(2, 9))
def test_windows_are_all_windows_of_each_text(texts: list[list[int]], size: int) -> None:
    found = grams(Tokens.of(texts), size)
    expected = [
        (number, tuple(text[at : at + size]))
        for number, text in enumerate(texts)
        for at in range(len(text) - size + 1)
    ]
    assert found.owners.tolist() == [number for number, _ in expected]
    hashes = dict(zip(found.hashes.tolist(), (window for _, window in expected), strict=True))
    assert len(hashes) == len({window for _, window in expected})
    table = Table(found)
    assert table.known(found.hashes).tolist() == list(range(len(expected)))
    assert sorted(table.entries(found.hashes).tolist()) == list(range(len(expected)))


@settings(max_examples=300)
@given(st.lists(st.lists(st.integers(0, 3), min_size=5, max_size=20), min_size=1), st.data())
def test_found_is_what_the_definition_finds(prompts: list[list[int]], data: st.DataObject) -> None:
    quoted = st.sampled_from(prompts) | st.lists(st.integers(0, 3), max_size=6)
    texts = [
        [*chain(*parts)]
        for parts in data.draw(st.lists(st.lists(quoted, min_size=1, max_size=3), max_size=4))
    ]
    found = dict(Prompts(prompts).matches(texts))
    for index, text in enumerate(texts):
        shares = [by_definition(text, prompt) for prompt in prompts]
        assert (index in found) == any(share >= 0.5 for share in shares)
        if match := found.get(index):
            assert match.share == shares[match.prompt]


@pytest.mark.parametrize(
    ("length", "within"), [(5, True), (7, True), (8, True), (9, True), (4, False)]
)
def test_short_prompts_are_found(length: int, within: bool) -> None:
    """The reference dropped the last gram, so prompts of up to 8 tokens were never found."""
    prompt = list(range(length))
    texts = [[90, 91, *prompt, 92], prompt, [*prompt[:-1], 93]]
    found = dict(Prompts([prompt]).matches(texts))
    assert found.get(1) == Match(0, 1.0)
    assert (0 in found) == within
    assert (2 in found) == (length > 8)


def test_the_last_gram_of_text_and_prompt_counts() -> None:
    prompt = list(range(16))
    assert dict(Prompts([prompt]).matches([[50, 51, *prompt[8:]]])) == {0: Match(0, 0.5)}


def test_half_is_contaminated_and_less_is_not() -> None:
    prompts = Prompts([list(range(100, 120))])
    half, less = list(range(100, 110)), list(range(100, 109))
    assert [index for index, _ in prompts.matches([half, less])] == [0]


def test_a_shared_phrase_is_no_contamination() -> None:
    phrase = list(range(12))
    prompts = [[*phrase, *range(100 * n, 100 * n + 20)] for n in range(1, 400)]
    index = Prompts(prompts)
    assert not dict(index.matches([[*phrase, *range(30, 60)]] * 50))
    assert dict(index.matches([[*phrase, *prompts[7][12:]]])) == {0: Match(7, 1.0)}


def test_contaminated_rows_go_and_their_namesakes_stay() -> None:
    """The reference removed by id: one hit took every row with the same id along."""
    rows = [dict(row, id="same") for row in CLEAN]
    rows[17] = dialogue(f"Please solve this. {PROMPTS[3]} Thank you.", "no", id="same")
    rows[40] = dialogue("hello", f"As in the exam: {PROMPTS[9].upper()}", id="same")
    outcome = checked("decontamination", dataset(rows), BENCHMARK)
    outcome.require()
    assert removed(outcome) == [18, 41]
    told = [(example.field, example.detail) for example in outcome.report.examples]
    assert told == [
        ("messages[0].content", "repeats 100% of exam, exam.jsonl: row 4: prompt"),
        ("messages[1].content", "repeats 100% of exam, exam.jsonl: row 10: prompt"),
    ]
    assert outcome.report.figures["rows.exam"] == 2


def test_a_second_run_finds_the_same() -> None:
    """The reference skipped benchmarks it had a report of, and so filtered nothing."""
    rows = [*CLEAN, dialogue(PROMPTS[0], "no")]
    first, second = (checked("decontamination", dataset(rows), BENCHMARK) for _ in range(2))
    assert removed(first) == removed(second) == [121]
    assert first.report == second.report


def test_recall_is_measured_in_every_run() -> None:
    figures = checked("decontamination", dataset(CLEAN), BENCHMARK).report.figures
    assert {figures[f"recall.{kind}"] for kind in PROMISED} == {1.0}
    assert figures["recall.promised.planted"] > 150
    assert 0.97 < figures["recall.promised.low"] < figures["recall.promised.high"] == 1.0


def test_a_report_alone_measures_recall_too() -> None:
    rows = [*CLEAN, dialogue(PROMPTS[0], "no")]
    outcome = checked("decontamination", dataset(rows), BENCHMARK, remove=[])
    outcome.require()
    assert (removed(outcome), outcome.report.reasons) == ([], {"contaminated": 1})


@pytest.mark.parametrize("blind", ["assistant", "user"])
def test_a_detector_that_misses_is_refused(monkeypatch: pytest.MonkeyPatch, blind: str) -> None:
    whole = texts
    monkeypatch.setattr(
        decontamination,
        "texts",
        lambda content: (
            text for text in whole(content) if text.speaker != blind or "prompt" in content
        ),
    )
    outcome = checked("decontamination", dataset(CLEAN), BENCHMARK)
    with pytest.raises(ValueError, match=r"planted rows: recall .*, below 0.90 \(alone "):
        outcome.require()


def test_too_much_to_remove_is_an_error_that_says_how_much() -> None:
    rows = [*CLEAN[:90], *(dialogue(text, "no") for text in PROMPTS[:10])]
    outcome = checked("decontamination", dataset(rows), BENCHMARK)
    with pytest.raises(ValueError, match=r"remove 10 of 100 rows \(10.0%\) of talk, more than"):
        outcome.require()
    checked("decontamination", dataset(rows), BENCHMARK, waivers={"talk": "10%"}).require()


def test_documents_are_looked_at_and_planted_in() -> None:
    rows = [{"text": prose(DRAW, 30)} for _ in range(40)]
    rows[5] = {"prompt": "so", "continuation": PROMPTS[2]}
    outcome = checked("decontamination", dataset(rows), BENCHMARK)
    outcome.require()
    assert removed(outcome) == [6]


def test_no_clean_row_to_plant_in_is_no_excuse() -> None:
    figures = checked("decontamination", dataset([]), BENCHMARK).report.figures
    assert figures["recall.promised"] == 1.0


@pytest.mark.parametrize(
    ("row", "told"),
    [
        ({"question": "?"}, "exam.jsonl: row 1: no prompt to look for"),
        ({"prompt": " \n"}, "exam.jsonl: row 1: prompt: the prompt is empty"),
    ],
)
def test_a_benchmark_without_prompts_is_refused(row: dict[str, str], told: str) -> None:
    with pytest.raises(ValueError, match=told):
        checked("decontamination", dataset(CLEAN), dataset([row], "exam"))


def test_no_benchmark_at_all_is_refused() -> None:
    with pytest.raises(ValueError, match="would remove nothing"):
        checked("decontamination", dataset(CLEAN))


def test_tokens_of_a_prompt_do_not_depend_on_where_it_stands() -> None:
    encoder = Encoder(chat().tokenizer)
    alone, within = encoder.encode(["Straße  Nr. 5?", "so:\nSTRASSE nr. ５? and"])
    assert within[-len(alone) - len(encoder.encode(["and"])[0]) :][: len(alone)] == alone
    assert Encoder(chat().tokenizer).encode(["", " "]) == [[], []]
