"""The published rules of exact match."""

from decimal import Decimal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rewards.schema import Item
from rewards.verifiers.answer import verify
from rewards.verifiers.normalisers import NORMALISERS, fold, number

TEXTS = st.text(max_size=20)
NUMBERS = st.decimals(allow_nan=False, allow_infinity=False, places=3).map(lambda d: f"{d:f}")


@pytest.mark.parametrize(
    ("name", "gold", "answer", "agree"),
    [
        ("default", "42", "42.0", True),
        ("default", "09", "9", True),
        ("default", "42", "42 km", False),
        ("default", "-5", "−5", True),
        ("default", "1000", "1,000", False),
        ("default", "Yes", "yes.", True),
        ("default", "New York", " new\u00a0 york", True),
        ("default", "zero\u200bwidth", "zerowidth", True),
        ("default", "The Hague", "Hague", False),
        ("default", ".", "", False),
        *[(name, "22", "2²", False) for name in ("default", "number", "text", "list", "squad")],
        *[(name, "10", "1⁰", False) for name in ("default", "number", "text", "list", "squad")],
        *[(name, "32", "3₂", False) for name in ("default", "number", "text", "list", "squad")],
        *[(name, "5", "⒌", False) for name in ("default", "number", "text", "list", "squad")],
        ("default", "5", "⑤", False),
        ("default", "5", "５", True),
        ("default", "x^2", "x²", True),
        ("default", "10^23", "10²³", True),
        ("text", "H_2O", "H₂O", True),
        ("strict", "Yes", "yes", False),
        ("strict", "Yes", "Yes", True),
        ("numeric", "1000", "1,000.0", True),
        ("numeric", "1000", "1e3", True),
        ("numeric", "1000", "10,00", False),
        ("numeric", "9007199254740993", "9007199254740992", False),
        ("numeric", "0.1", "0.1000000000000000000000000000000000001", False),
        ("numeric", "5", "inf", False),
        ("squad", "A", "the", False),
        ("squad", "U.S.", "us", True),
        ("squad", "3.14", "(3.14)", True),
        ("squad", "3.14", "314", False),
        ("squad", "5", "-5", False),
        ("squad", "1.5 million", "15 million", False),
        ("squad", "-5 degrees", "5 degrees", False),
        ("squad", "1/2", "12", False),
        ("squad", "1/2 cup", "12 cup", False),
        ("squad", "10:30", "1030", False),
        ("squad", "10:30 pm", "1030 pm", False),
        ("squad", "C++", "C", False),
        ("squad", "C#", "C", False),
        ("squad", "1,5 million", "15 million", False),
        ("squad", "1,500 people", "1500 people.", True),
        ("squad", "the 1.5 million", "1.5 million!", True),
        ("squad", "well-known", "wellknown", True),
        ("squad", "Washington, D.C.", "washington dc", True),
        ("mcq", "B", "(b) three metres", True),
        ("mcq", "B", "(b): three metres", True),
        ("mcq", "(B)", "B - three", True),
        ("mcq", "B", "A or B", False),
        ("mcq", "B", "B. or C", False),
        ("mcq", "B", "Because", False),
        ("mcq", "B", "(B) or 17", False),
        ("mcq", "B", "(B)+1", False),
        ("mcq", "B", "(B", False),
        ("mcq", "B", "(B) (C)", False),
        ("mcq", "B", "B. C", False),
        ("mcq", "A", "A. x\nB. y", False),
        ("mcq", "A", "a. x\nb. y", False),
        ("mcq", "A", "A. B or C", False),
        ("mcq", "A", "A: not this one, B", False),
        ("mcq", "A", "A) 5, (B) 6", False),
        ("mcq", "A", "A. It is not B", False),
        ("mcq", "A", "A. Washington, D.C.", True),
        ("mcq", "A", "A. Vitamin C", True),
        ("mcq", "B", "B. a cat and a dog", True),
        ("mcq", "B", "B. a", False),
        ("choice", "B", "B: three", True),
        ("number", "1000", "1,000", True),
        ("number", "1000", "1e9999999", False),
        ("text", "42", "42.0", False),
        ("text", "Zürich", "zu\u0308rich.", True),
        ("list", "red, blue", '["Red", "blue"]', True),
        ("list", "red, blue", "red; blue", True),
        ("list", "red, blue", "blue, red", False),
        ("list", "1, 2", "[1, 2.0]", True),
        ("list", "1, 2", "1, 2, 3", False),
        ("list", "1, 2", "1,, 2", False),
        ("list", "1, 2", "[1, [2]]", False),
        ("list", "1, 2", "[1, 2", False),
        ("structured", '{"a": 1, "b": [true]}', '{"b": [true], "a": 1.0}', True),
        ("structured", '{"a": 1}', '{"a": true}', False),
        ("structured", '{"a": 1}', '{"a": "1"}', False),
        ("structured", '{"a": 1}', '{"a": 1, "a": 1}', False),
        ("structured", '{"a": 1}', '{"a": 1, "b": null}', False),
        ("structured", "[1, 2]", "[2, 1]", False),
        ("structured", "1", "1e99999999999999999999", False),
        ("structured", "1", "NaN", False),
        ("structured", "[]", "[" * 9999, False),
    ],
)
def test_rules(name: str, gold: str, answer: str, agree: bool) -> None:
    assert NORMALISERS[name](gold, answer) is agree


@pytest.mark.parametrize(
    ("name", "gold"),
    [("numeric", "many"), ("mcq", "None of them"), ("list", "[1, {}]"), ("structured", "{a: 1}")],
)
def test_a_gold_the_rule_does_not_fit_is_no_score(name: str, gold: str) -> None:
    item = Item(
        id="i", verifier="answer", answers=[gold], gold=gold, parameters={"normaliser": name}
    )
    verdict = verify(item)
    assert (verdict.status, verdict.reason) == ("abstained", "bad_gold")


@given(TEXTS)
def test_folding_again_changes_no_more_than_a_stop(text: str) -> None:
    once = fold(text)
    assert fold(once).rstrip(".") == fold(fold(once)).rstrip(".") or once.endswith(".")
    assert once == once.strip()


@pytest.mark.parametrize("name", ["default", "text", "squad", "list"])
@pytest.mark.parametrize("gold", ["\u200b", " \u2060\ufeff", "\u00ad"])
def test_an_invisible_gold_fits_no_rule(name: str, gold: str) -> None:
    with pytest.raises(ValueError, match="gold"):
        NORMALISERS[name](gold, "")


@given(TEXTS.filter(fold), st.sampled_from(["default", "strict", "squad"]))
def test_a_text_agrees_with_itself(text: str, name: str) -> None:
    assert NORMALISERS[name](text, text)


@given(TEXTS.filter(fold), TEXTS.filter(fold), st.sampled_from(["default", "squad", "strict"]))
def test_agreement_is_mutual(one: str, other: str, name: str) -> None:
    assert NORMALISERS[name](one, other) == NORMALISERS[name](other, one)


@given(NUMBERS, NUMBERS)
def test_numbers_agree_by_value(one: str, other: str) -> None:
    for name in ("default", "numeric", "squad"):
        assert NORMALISERS[name](one, other) == (Decimal(one) == Decimal(other))


@given(st.integers())
def test_grouped_numbers_keep_their_value(value: int) -> None:
    assert number(f"{value:,}") == value


@given(st.lists(st.sampled_from(["a", "b", "c"]), min_size=1), st.randoms())
def test_all_of_is_a_multiset(gold: list[str], random: object) -> None:
    shuffled = sorted(gold, key=lambda _: random.random())  # type: ignore[attr-defined]
    assert scored_all_of(gold, shuffled) == 1.0
    assert scored_all_of(gold, [*shuffled, "a"]) == 0.0
    assert scored_all_of(gold, shuffled[1:]) == 0.0
    assert scored_all_of(gold, [*shuffled[1:], "d"]) == 0.0


def scored_all_of(gold: list[str], answers: list[str]) -> float | None:
    return verify(
        Item(id="i", verifier="answer", answers=answers, gold={"all_of": list(gold)})
    ).score


def test_a_list_of_gold_names_alternatives() -> None:
    item = {"id": "i", "verifier": "answer", "gold": ["red", "crimson"]}
    for answers, score in ((["crimson"], 1.0), (["blue"], 0.0), (["red", "crimson"], 0.0)):
        assert verify(Item.model_validate({**item, "answers": answers})).score == score
