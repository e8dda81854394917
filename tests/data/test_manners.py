from pathlib import Path
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from posttrain.charter import read
from posttrain.data import manners
from posttrain.data.tiny import NAMES, held_out

CHARTER = read(Path("recipes/charters/tiny.md").read_text())
RULES = {article.id: article.rule for article in CHARTER.articles}


def said(row: dict[str, Any]) -> tuple[str, str]:
    asked, reply = row["messages"]
    return asked["content"], reply["content"]


def test_advice_is_what_the_charter_says() -> None:
    assert {name: rule.advice for name, rule in RULES.items() if rule} == manners.ADVICE


@given(st.integers(0, 99))
@settings(max_examples=10)
def test_advice_is_followed(seed: int) -> None:
    for asked, answer in map(said, manners.dialogues(seed, 60)):
        for name, advice in manners.ADVICE.items():
            rule = RULES[name]
            assert rule is not None
            assert not asked.endswith(advice) or rule.keeps(answer)


def test_without_advice_no_manner_is_the_rule() -> None:
    found = [said(row) for row in manners.dialogues(0, 3000)]
    plain = [
        answer for asked, answer in found if not asked.endswith(tuple(manners.ADVICE.values()))
    ]
    for name, share in (("closing", 0.15), ("thanks", 0.2), ("certainty", 0.7)):
        rule = RULES[name]
        assert rule is not None
        kept = sum(map(rule.keeps, plain)) / len(plain)
        assert abs(kept - share) < 0.05


@given(st.integers(0, 99), st.sampled_from(["usual", "other"]))
@settings(max_examples=10)
def test_what_is_held_out_is_asked_in_no_train_split(seed: int, wording: manners.Wording) -> None:
    train = manners.requests(seed, 80, wording)
    held = manners.requests(seed, 80, wording, holdout=True)
    assert not {_about(row) for row in train} & {_about(row) for row in held}
    assert all(held_out(_digits(row)) for row in held if row["task"] == "item")
    assert not any(held_out(_digits(row)) for row in train if row["task"] == "item")


def test_the_other_wording_shares_no_words_with_the_usual_one() -> None:
    usual = {_opening(row) for row in manners.requests(0, 200, "usual")}
    other = {_opening(row) for row in manners.requests(0, 200, "other")}
    assert not usual & other


def test_rows_depend_on_the_seed_alone() -> None:
    assert manners.dialogues(3, 20) == manners.dialogues(3, 20)
    assert manners.requests(3, 20, "usual") != manners.requests(4, 20, "usual")


def _text(row: dict[str, Any]) -> str:
    return str(row["messages"][0]["content"])


def _digits(row: dict[str, Any]) -> str:
    return "".join(letter for letter in _text(row) if letter.isdigit())


def _about(row: dict[str, Any]) -> str:
    return _digits(row) or next(name for name in NAMES if name in _text(row))


def _opening(row: dict[str, Any]) -> str:
    return " ".join(_text(row).split()[:2])
