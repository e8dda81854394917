from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from rewards.rules import Rule
from rewards.schema import Item
from rewards.verifiers import load, rules

CHARTER = {"name": "house", "sha256": "a" * 64}
ARTICLES = [
    {"id": "bye", "rule": {"ends_with": ["Bye.", "See you."], "advice": "Say goodbye."}},
    {"id": "doubt", "rule": {"avoids": ["definitely"], "advice": "Claim no certainty."}},
]


def item(response: str, **parameters: Any) -> Item:
    asked = {"charter": CHARTER, "articles": ARTICLES, **parameters}
    return Item(id="x", verifier="rules", response=response, parameters=asked)


@pytest.mark.parametrize(
    ("rule", "kept", "broken"),
    [
        ({"begins_with": ["Hi"]}, "  hi there", "Oh, hi"),
        ({"ends_with": ["Bye."]}, "So long. bye. ", "Bye. So long"),
        ({"says": ["please", "thanks"]}, "Thanks a lot", "A lot"),
        ({"avoids": ["never"]}, "Perhaps", "NEVER"),
        ({"begins_with": ["a"], "ends_with": ["z"]}, "a to z", "a to y"),
    ],
)
def test_a_rule_is_kept_or_broken(rule: dict[str, Any], kept: str, broken: str) -> None:
    found = Rule(**rule, advice="x")
    assert found.keeps(kept)
    assert not found.keeps(broken)


@given(st.text())
def test_whoever_says_nothing_keeps_no_rule(text: str) -> None:
    rule = Rule(avoids=["never"], advice="x")
    assert rule.keeps(text) == (bool(text.strip()) and "never" not in text.casefold())


def test_a_rule_that_asks_nothing_is_none() -> None:
    with pytest.raises(ValidationError, match="a rule states"):
        Rule(advice="x")


def test_kept_articles_score_one_and_need_no_feedback() -> None:
    verdict = rules.verify(item("Perhaps. Bye."))
    assert (verdict.status, verdict.score, verdict.feedback) == ("scored", 1.0, None)
    assert verdict.parts == {"bye": 1.0, "doubt": 1.0}


def test_feedback_is_the_advice_of_the_first_broken_article() -> None:
    verdict = rules.verify(item("Definitely."))
    assert (verdict.score, verdict.reason, verdict.feedback) == (0.0, "broken", "Say goodbye.")
    assert verdict.parts == {"bye": 0.0, "doubt": 0.0}
    assert rules.verify(item("Definitely. Bye.")).feedback == "Claim no certainty."


def test_the_deliberation_is_not_judged() -> None:
    said = "<|inner_prefix|>definitely<|inner_suffix|>Perhaps. Bye.<|assistant_end|>"
    assert rules.verify(item(said)).score == 1.0


def test_a_response_that_says_nothing_is_broken() -> None:
    verdict = rules.verify(item(""))
    assert (verdict.score, verdict.reason) == (0.0, "empty")


@pytest.mark.parametrize(
    ("parameters", "told"),
    [
        ({"articles": []}, "articles: "),
        ({"articles": [ARTICLES[0], ARTICLES[0]]}, "name each article once"),
        ({"charter": {"name": "house", "sha256": "no"}}, "charter.sha256: "),
        ({"prompt": "?"}, "prompt: unknown; there are charter, articles"),
    ],
)
def test_abstains_from_items_that_do_not_say_by_what(parameters: dict[str, Any], told: str) -> None:
    verdict = rules.verify(item("Bye.", **parameters))
    assert (verdict.status, verdict.reason) == ("abstained", "bad_item")
    assert told in str(verdict.detail)


def test_abstains_without_a_response_and_with_a_gold() -> None:
    asked = {"charter": CHARTER, "articles": ARTICLES}
    unsaid = Item(id="x", verifier="rules", answers=["4"], parameters=asked)
    golden = Item(id="x", verifier="rules", response="Bye.", gold="4", parameters=asked)
    assert {rules.verify(each).status for each in (unsaid, golden)} == {"abstained"}


def test_it_passes_its_canaries_and_runs_inline() -> None:
    _, profile = load("rules", "rewards.verifiers.rules")
    assert profile.runs == "inline"
