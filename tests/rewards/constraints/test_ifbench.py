"""The IFBench rules: labelled cases, ours and the corpus', and what holds for any text."""

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rewards.verifiers.constraints import ifbench as _ifbench
from rewards.verifiers.constraints.check import INSTRUCTIONS, Mode, Response

HERE = Path(__file__).parent
IDS = sorted(
    id for id, it in INSTRUCTIONS.items() if it.repaired.__module__.startswith(_ifbench.__name__)
)
OWN = HERE / "ifbench_cases.jsonl"
CORPUS = HERE.parent / "cases" / "if.jsonl"


def _cases(path: Path) -> list[Any]:
    rows = [json.loads(line) for line in path.read_text().splitlines()]
    return [
        pytest.param(row, id=row.get("id", f"{row['instruction_id']}-{place}"))
        for place, row in enumerate(rows, 1)
        if row["instruction_id"] in IDS and row.get("family", "ifbench") == "ifbench"
    ]


def follows(id: str, params: dict[str, Any], response: str, mode: Mode = "repaired") -> bool:
    """Whether `response` follows instruction `id`."""
    instruction = INSTRUCTIONS[id]
    return instruction.rule(mode)(Response(response), instruction.parameters.model_validate(params))


@pytest.mark.parametrize("case", [*_cases(OWN), *_cases(CORPUS)])
def test_a_case_has_its_verdict(case: dict[str, Any]) -> None:
    verdict = follows(case["instruction_id"], case["params"], case["response"])
    assert verdict is case["expected"]


PARAMS: dict[str, dict[str, Any]] = {
    row.values[0]["instruction_id"]: row.values[0]["params"] for row in _cases(OWN)
}


def test_every_instruction_has_a_case_that_follows_and_one_that_does_not() -> None:
    seen = {(row.values[0]["instruction_id"], row.values[0]["expected"]) for row in _cases(OWN)}
    assert len(IDS) == 58
    assert seen == {(id, verdict) for id in IDS for verdict in (True, False)}


SIGNS = "()[{\"'“”.!?,;:-*#|/<>\t\n _é🎉‽\u200d\ufe0f\x00"
PIECES = ["a ", "The ", "Emma ", "eagle bald ", "3", "14", "?!", "寿司 ", "<i>", "</i>", "\r\n"]
PIECES += ["\n\n", "```\n", "Question 1. ", "A) x\n", "My Answer:", "* ", "- ", "Zimbabwe\n"]
TEXTS = st.one_of(st.text(), st.lists(st.sampled_from([*SIGNS, *PIECES]), max_size=40).map("".join))


@pytest.mark.parametrize("id", IDS)
@settings(max_examples=20, deadline=None)
@given(text=TEXTS)
def test_any_text_gets_a_verdict(id: str, text: str) -> None:
    for mode in ("repaired", "upstream"):
        assert follows(id, PARAMS[id], text, mode) in (True, False)


@pytest.mark.parametrize("id", IDS)
def test_what_was_asked_is_one_line_with_the_parameters(id: str) -> None:
    parameters = INSTRUCTIONS[id].parameters.model_validate(PARAMS[id])
    line = INSTRUCTIONS[id].line(parameters)
    assert "\n" not in line
    assert line.strip(". ") == line
    assert all(str(value)[:50] in line for name, value in parameters if name in _SHOWN)


_SHOWN = ("N", "small_n", "n", "m", "keyword", "word", "sep", "options", "min_words", "n_end")


@pytest.mark.parametrize(
    ("id", "params"),
    [
        ("count:numbers", {}),
        ("count:numbers", {"N": 2.5}),
        ("count:numbers", {"N": -1}),
        ("count:numbers", {"N": True}),
        ("count:words_japanese", {"N": 0}),
        ("ratio:stop_words", {"percentage": 101}),
        ("sentence:keyword", {"word": " ", "N": 1}),
        ("format:emoji", {"N": 1}),
        ("repeat:repeat_span", {"prompt_to_repeat": "a b", "n_start": 0}),
    ],
)
def test_parameters_that_do_not_fit_are_refused(id: str, params: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match="validation error"):
        INSTRUCTIONS[id].parameters.model_validate(params)


WORD = st.sampled_from(["fox", "hill", "rain", "moss", "table", "amber", "seal", "north", "glass"])


@given(words=st.lists(WORD, min_size=1, max_size=12), data=st.data())
def test_a_span_of_the_request_is_a_copy_of_it(words: list[str], data: st.DataObject) -> None:
    start = data.draw(st.integers(0, len(words) - 1))
    end = data.draw(st.integers(start, len(words) - 1))
    params = {"prompt_to_repeat": " ".join(words), "n_start": start, "n_end": end}
    span = " ".join(words[start : end + 1])
    assert follows("repeat:repeat_span", params, span)
    assert not follows("repeat:repeat_span", params, f"{span} extra")


@given(words=st.lists(WORD, min_size=2, max_size=12))
def test_another_first_word_is_the_only_change(words: list[str]) -> None:
    params = {"prompt_to_repeat": " ".join(words)}
    assert follows("repeat:repeat_change", params, " ".join(["zebra", *words[1:]]))
    assert not follows("repeat:repeat_change", params, " ".join(words))
    assert not follows("repeat:repeat_change", params, " ".join(["zebra", *words]))


@given(first=st.integers(1, 5), step=st.integers(0, 4), count=st.integers(2, 5))
def test_sentences_that_grow_by_n_follow(first: int, step: int, count: int) -> None:
    lengths = [first + step * place for place in range(count)]
    text = " ".join(" ".join(["Moss"] * length) + "." for length in lengths)
    assert follows("sentence:increment", {"small_n": step}, text)
    assert not follows("sentence:increment", {"small_n": step + 1}, text)


@given(start=st.integers(0, 25), length=st.integers(1, 60))
def test_the_alphabet_may_start_anywhere_and_loops(start: int, length: int) -> None:
    words = [chr(97 + (start + place) % 26) + "xo" for place in range(length)]
    assert follows("words:alphabet", {}, " ".join(words) + ".")
    assert not follows("words:alphabet", {}, " ".join([*words, words[-1]]))


@given(words=st.lists(WORD, min_size=1), bound=st.integers(1, 4))
def test_a_word_is_repeated_no_more_than_n_times(words: list[str], bound: int) -> None:
    most = max(words.count(word) for word in words)
    assert follows("words:repeats", {"small_n": bound}, ", ".join(words)) == (most <= bound)


@given(counts=st.tuples(*[st.integers(0, 8)] * 5))
def test_keywords_are_counted_exactly(counts: tuple[int, ...]) -> None:
    keywords = ("ant", "bee", "cow", "doe", "eel")
    params = {f"keyword{place}": word for place, word in enumerate(keywords, 1)}
    text = " ".join(" ".join([word] * count) for word, count in zip(keywords, counts, strict=True))
    assert follows("count:keywords_multiple", params, text) == (counts == (1, 2, 3, 5, 7))
