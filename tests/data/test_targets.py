"""Masks told by ids: as the format gives them, and by the rules for documents that are no chat."""

from typing import Any

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from posttrain.data.rendering import render
from posttrain.data.targets import Marks, targets
from tests.data.checks.samples import chat, chatml
from tests.data.conversations import conversations

MARKS = Marks(
    bos=1, others=(10, 20), user=20, start=30, end=31, output_start=40, output_end=41,
    untaught=(9,),
)  # fmt: skip
S, U, A, E = 1, 20, 30, 31


@settings(deadline=None, max_examples=60)
@given(conversations())
def test_ids_tell_the_mask_that_the_format_gave(row: Any) -> None:
    assume(any(message["role"] in ("user", "assistant") for message in row["messages"]))
    for text in ("", "a3 b4"):
        rendered = chat().render({**row, "text": text})
        assert chat().mask(rendered.ids) == rendered.mask
        assert render(chat(), {"tokens": rendered.ids}) == rendered


RULES: list[tuple[str, list[int], str]] = [
    ("no chat", [S, 5, 6, 2], "0111"),
    ("no chat, cut", [5, 6, 2], "011"),
    ("an empty document", [], ""),
    ("a chat", [S, 10, 5, 21, U, 5, 21, A, 5, 6, E], "00000000111"),
    ("a document before it", [S, 5, 6, U, 5, A, 7, E], "01100011"),
    ("two answers", [S, U, 5, A, 7, E, U, 5, A, 7, E], "00001100011"),
    ("no assistant", [S, 5, U, 5, 21, 6], "010000"),
    ("cut before a chat", [5, 6, U, 5, A, 7, E, 8, 8], "010000011"),
    ("cut within an answer", [7, E, 8, U, 5, A, 7, E], "01100000"),
    ("an answer that was cut", [S, U, 5, A, 7, 8], "000011"),
    ("an answer never closed", [S, U, A, 7, U, 5, A, 7, E], "000100011"),
    ("outputs of tools", [S, U, A, 7, 40, 8, 41, 7, E], "000100011"),
    ("what is not taught", [S, U, A, 7, 9, E], "000101"),
]


@pytest.mark.parametrize(("rule", "ids", "mask"), RULES)
def test_each_rule(rule: str, ids: list[int], mask: str) -> None:
    found = targets(np.array(ids, dtype=np.int64), [len(ids)], MARKS)
    assert "".join(map(str, found.tolist())) == mask, rule


@given(st.lists(st.sampled_from(RULES), max_size=12))
def test_no_document_minds_its_neighbours(rules: list[tuple[str, list[int], str]]) -> None:
    ids = np.array([token for _, each, _ in rules for token in each], dtype=np.int64)
    found = targets(ids, [len(each) for _, each, _ in rules], MARKS)
    assert "".join(map(str, found.tolist())) == "".join(mask for *_, mask in rules)


def test_where_ids_do_not_tell_a_row_must() -> None:
    with pytest.raises(ValueError, match="give a `mask`"):
        render(chatml(), {"tokens": [1, 2]})
