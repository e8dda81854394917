"""Duplicates: the first stays, ids are unique."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.data.checks.samples import checked, dataset, dialogue, removed


def test_later_copies_go_and_say_of_what() -> None:
    rows = [
        dialogue("What is it?", "A cat.", id="1", source="x"),
        dialogue("What is it?", "A dog.", id="2"),
        dialogue("What is it?", "A cat.", id="3", source="y"),
        dialogue("what  is IT?", "a cat.\n", id="4"),
        dialogue("What is it?", "A cat.", id="5", deliberation=True),
    ]
    outcome = checked("duplicates", dataset(rows))
    outcome.require()
    assert removed(outcome) == [3, 4]
    told = [(example.reason, example.detail) for example in outcome.report.examples]
    assert told == [("exact", "as talk.jsonl: row 1"), ("normalised", "as talk.jsonl: row 1")]


def test_signs_tell_rows_apart() -> None:
    rows = [dialogue(f"2{sign}3", "so") for sign in "+-*/"] + [dialogue("x²", "so")]
    rows.append(dialogue("x2", "so"))
    assert removed(checked("duplicates", dataset(rows))) == []


def test_one_id_on_different_rows_is_refused() -> None:
    rows = [dialogue("a", "b", id=7), dialogue("c", "d", id=8), dialogue("e", "f", id="7")]
    outcome = checked("duplicates", dataset(rows))
    assert removed(outcome) == []
    with pytest.raises(ValueError, match=r"row 3: id: '7' is also the id of talk.jsonl: row 1"):
        outcome.require()


def test_a_copy_with_its_id_only_goes() -> None:
    outcome = checked("duplicates", dataset([dialogue("a", "b", id="1")] * 3))
    outcome.require()
    assert removed(outcome) == [2, 3]


@given(st.lists(st.sampled_from(["a", "A", "a ", "b", "c"]), max_size=12))
def test_what_stays_is_one_of_each(texts: list[str]) -> None:
    data = dataset([{"text": text} for text in texts])
    outcome = checked("duplicates", data)
    kept = [str(row.content["text"]).casefold().strip() for row in outcome.kept(data.rows())]
    assert sorted(kept) == sorted({text.casefold().strip() for text in texts})
    assert outcome.report.figures["rows.without_id"] == len(texts)
