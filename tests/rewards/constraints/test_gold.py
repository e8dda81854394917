"""Gold in its public forms, and all that makes it no gold."""

import contextlib
import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rewards.schema import Item, Verdict
from rewards.verifiers.constraints import GOLD, verify
from rewards.verifiers.constraints.check import Refused
from rewards.verifiers.constraints.gold import read_gold
from tests.rewards.constraints.asked import follows, verdict

ONE = {
    "instruction_id": ["keywords:word_once", "punctuation:no_comma"],
    "kwargs": [{"keyword": "moss", "N": None, "relation": None}, None],
}
WORDS = "length_constraints:number_words"


def judged(gold: Any) -> Verdict:
    return verify(Item(id="i", verifier="constraints", response="The moss grew.", gold=gold))


@pytest.mark.parametrize(
    "gold",
    [
        ONE,
        [ONE],
        [json.dumps(ONE)],
        json.dumps(ONE),
        json.dumps([ONE]),
        repr([ONE]),
        repr([json.dumps(ONE)]),
        {"instruction_id_list": ONE["instruction_id"], "kwargs": ONE["kwargs"]},
    ],
    ids=str,
)
def test_public_forms_mean_the_same(gold: Any) -> None:
    found = judged(gold)
    assert found.parts == {"keywords:word_once": 1.0, "punctuation:no_comma": 1.0}
    GOLD.validate_python(gold)


@pytest.mark.parametrize(
    ("gold", "said"),
    [
        (None, "valid"),
        ("", "neither JSON nor a Python literal"),
        ("__import__('os').abort()", "neither JSON nor a Python literal"),
        ("[" * 10_000, "neither JSON nor a Python literal"),
        ("-" * 50_000 + "1", "neither JSON nor a Python literal"),
        ("'" + "a" * 300_000 + "'", "more than 200000"),
        ([], "list of 0"),
        ([ONE, ONE], "list of 2"),
        ({"instruction_id": [], "kwargs": []}, "at least 1"),
        ({"instruction_id": ["punctuation:no_comma"], "kwargs": []}, "1 ids, 0 kwargs"),
        ({"instruction_id": ["punctuation:no_comma"] * 65, "kwargs": [None] * 65}, "at most 64"),
        ({"instruction_id": ["keywords:no_such"], "kwargs": [None]}, "keywords:no_such"),
        (ONE | {"prompt": "x"}, "prompt"),
    ],
    ids=lambda value: str(value)[:30],
)
def test_what_is_no_gold_is_abstained_from(gold: Any, said: str) -> None:
    found = judged(gold)
    assert (found.status, found.reason) == ("abstained", "bad_gold")
    assert said in (found.detail or "")
    assert "\n" not in (found.detail or "")


@pytest.mark.parametrize(
    ("id", "kwargs", "field"),
    [
        ("keywords:existence", {}, "keywords"),
        ("keywords:existence", {"keywords": None}, "keywords"),
        ("keywords:existence", {"keywords": []}, "keywords"),
        ("keywords:existence", {"keywords": ["a", " "]}, "keywords.1"),
        ("keywords:existence", {"keywords": ["a"], "keyword": "b"}, "keyword"),
        (WORDS, {"num_words": 5.5, "relation": "at least"}, "num_words"),
        (WORDS, {"num_words": "5", "relation": "at least"}, "num_words"),
        (WORDS, {"num_words": -1, "relation": "at least"}, "num_words"),
        (WORDS, {"num_words": True, "relation": "at least"}, "num_words"),
        (WORDS, {"num_words": 5, "relation": "exactly"}, "relation"),
        (WORDS, {"num_words": 5}, "relation"),
        ("language:response_language", {"language": "xx"}, "language"),
        ("keywords:letter_frequency",
         {"letter": "ab", "let_frequency": 1, "let_relation": "at least"}, "letter"),
        # A row of a public data set: the prompt asks for "the None-th paragraph".
        ("length_constraints:nth_paragraph_first_word",
         {"num_paragraphs": 3, "keyword": "schedule"}, "nth_paragraph"),
        ("length_constraints:nth_paragraph_first_word",
         {"num_paragraphs": 3, "nth_paragraph": 4, "first_word": "a"}, "nth_paragraph"),
        ("copy:repeat_phrase", {"phrase": "two words", "small_n": 2}, "phrase"),
        ("new:copy_span_idx", {"prompt_to_repeat": "abc", "n_start": 3, "n_end": 3}, "3 to 3"),
        ("new:copy_span_idx", {"prompt_to_repeat": "abc", "n_end": 3}, "n_start"),
        ("punctuation:no_comma", {"N": 1}, "N"),
    ],
)  # fmt: skip
def test_parameters_that_do_not_fit_are_named(id: str, kwargs: dict[str, Any], field: str) -> None:
    found = verdict(id, kwargs, "a a a a a a")
    assert (found.status, found.reason) == ("abstained", "bad_gold")
    assert id in (found.detail or "")
    assert field in (found.detail or "")


def test_integral_floats_are_integers() -> None:
    assert follows(WORDS, {"num_words": 3.0, "relation": "at least"}, "a b c")


def test_repeated_ids_all_count() -> None:
    kwargs = [{"keyword": "moss"}, {"keyword": "fern"}, {"keyword": "grew"}]
    found = judged({"instruction_id": ["keywords:word_once"] * 3, "kwargs": kwargs})
    assert found.score == 0.0
    assert found.parts == {
        "keywords:word_once": 1.0,
        "keywords:word_once#2": 0.0,
        "keywords:word_once#3": 1.0,
    }


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=12),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner),
    max_leaves=8,
)


@settings(deadline=None)
@given(JSON | st.fixed_dictionaries({"instruction_id": JSON, "kwargs": JSON}))
def test_any_gold_is_read_or_refused(gold: Any) -> None:
    with contextlib.suppress(Refused):
        assert read_gold(gold)
