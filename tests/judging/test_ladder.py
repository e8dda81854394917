import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from posttrain.judging.ladder import FLAWS, broken, kept, ladder
from rewards.rules import Rule

WORDS = st.lists(st.sampled_from(["Mia", "lives", "in", "Bern", "Thanks", "Bye."]), max_size=6)
RULES = [
    Rule(ends_with=["Happy to help!"], advice="x"),
    Rule(avoids=["definitely"], advice="x"),
    Rule(begins_with=["Thanks."], advice="x"),
    Rule(says=["please"], advice="x"),
]


@given(WORDS, st.sampled_from(RULES))
def test_a_rule_can_be_kept_and_then_broken(words: list[str], rule: Rule) -> None:
    text = kept(" ".join([*words, "so"]), rule)
    assert rule.keeps(text)
    assert not rule.keeps(broken(text, rule))


@given(WORDS, st.integers(0, len(RULES)), st.integers(0, 9))
def test_each_rung_breaks_at_least_one_rule_more(words: list[str], rungs: int, seed: int) -> None:
    texts = ladder(" ".join([*words, "so"]), rungs, random.Random(seed), RULES)
    assert [sum(not rule.keeps(text) for rule in RULES) for text in texts] == [*range(rungs + 1)]


@given(st.integers(0, 99))
def test_flaws_come_one_upon_the_other(seed: int) -> None:
    text = "Mia lives in Bern. She has two brothers and a dog, and she sings."
    texts = ladder(text, len(FLAWS), random.Random(seed))
    assert texts[0] == text
    assert len(set(texts)) == len(FLAWS) + 1
    assert texts == ladder(text, len(FLAWS), random.Random(seed))


def test_what_cannot_be_made_worse_is_refused() -> None:
    with pytest.raises(ValueError, match="says nothing"):
        ladder(" ", 1, random.Random(0))
    with pytest.raises(ValueError, match="there are 4 flaws"):
        ladder("So.", 5, random.Random(0), RULES)
