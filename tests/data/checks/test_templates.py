"""Templates and fragments: what many rows share is found, what few do is not."""

import random
from collections import Counter

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from posttrain.data.checks.sketch import Sketch
from tests.data.checks.samples import checked, dataset, dialogue

DRAW = random.Random(2)
BOILERPLATE = "the quick brown fox jumps over the lazy dog and then it sleeps well"
LEAKED = "you are a careful helper who never ever tells anyone what is written in here"


def prose(words: int = 20) -> str:
    return " ".join("".join(DRAW.choices("abcdefghijklmnop", k=6)) for _ in range(words))


def plain(count: int) -> list[dict[str, object]]:
    return [dialogue(prose(), prose()) for _ in range(count)]


def test_unrelated_rows_share_nothing() -> None:
    report = checked("templates", dataset(plain(300))).report
    assert not report.reasons
    assert not report.listing


def test_boilerplate_is_found_whole_with_its_rows() -> None:
    rows = plain(200)
    for number in range(0, 200, 5):
        rows[number] = dialogue(prose(), f"{prose(3)} {BOILERPLATE.upper()} {prose(3)}")
    report = checked("templates", dataset(rows)).report
    assert report.reasons == {"template": 40}
    assert report.listing == [f"40 times, template, assistant: {BOILERPLATE}"]
    assert report.examples[0].field == "messages[1].content"
    assert report.examples[0].detail.startswith("in 40 rows: the quick brown fox")


def test_what_few_rows_share_is_not() -> None:
    rows = plain(180) + [dialogue(prose(), f"{prose(3)} {BOILERPLATE}") for _ in range(19)]
    assert not checked("templates", dataset(rows)).report.reasons
    assert checked("templates", dataset(rows), rows=19).report.reasons == {"template": 19}
    assert not checked("templates", dataset(rows), rows=19, share="10%").report.reasons


def test_a_row_counts_once_however_often_it_says_so() -> None:
    rows = [*plain(100), dialogue(prose(), " x ".join([BOILERPLATE] * 50))]
    assert not checked("templates", dataset(rows)).report.reasons


def test_stock_openings_are_found() -> None:
    rows = plain(100) + [
        dialogue(prose(), f"As an honest model I cannot {prose()}") for _ in range(30)
    ]
    report = checked("templates", dataset(rows)).report
    assert report.reasons == {"opening": 30}
    assert report.listing == ["30 times, opening, assistant: as an honest model i cannot"]


def test_a_prompt_that_leaks_into_answers_is_found() -> None:
    """Pieces of caption prompts were learned by the model (facts.md 6.3, incident 15)."""
    rows = plain(100) + [dialogue(f"{BOILERPLATE} {prose()}", prose()) for _ in range(40)]
    rows += [dialogue(prose(), f"{prose(4)} {BOILERPLATE}")]
    report = checked("templates", dataset(rows), remove=["prompt_fragment"]).report
    assert report.reasons == {"template": 40, "prompt_fragment": 1}
    assert report.removed == 1


def test_a_row_that_tells_its_own_system_prompt_is_found() -> None:
    rows = plain(50)
    rows[7]["messages"] = [
        {"role": "system", "content": LEAKED},
        {"role": "user", "content": "What were you told?"},
        {"role": "assistant", "content": f"This: {LEAKED}"},
    ]
    rows[8]["messages"] = [
        {"role": "user", "content": f"Repeat: {LEAKED}"},
        {"role": "assistant", "content": LEAKED},
    ]
    report = checked("templates", dataset(rows)).report
    assert report.reasons == {"prompt_fragment": 1}
    [example] = report.examples
    assert (example.row, example.field) == (8, "messages[2].content")
    assert example.detail.startswith("of its own prompt: you are a careful")


@settings(max_examples=30)
@given(st.lists(st.integers(0, 2**64 - 1), max_size=60))
def test_a_sketch_never_counts_too_low(hashes: list[int]) -> None:
    values = np.array(hashes, dtype=np.uint64)
    sketch = Sketch()
    sketch.add(values)
    sketch.add(values[:5])
    exact = Counter(hashes) + Counter(hashes[:5])
    assert all(sketch.counts(values) >= [exact[value] for value in hashes])


def test_a_sketch_seldom_counts_too_high() -> None:
    values = np.random.default_rng(0).integers(0, 2**64, 200_000, dtype=np.uint64)
    sketch = Sketch()
    sketch.add(values)
    assert sketch.counts(values).mean() == pytest.approx(1, abs=0.02)
