"""Upstream rules: where they decide otherwise than the repaired ones, and their segmentation.

The expected outcomes were taken from the public implementation.
"""

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rewards.verifiers.constraints.upstream import punkt_sentences, regex_sentences, treebank
from tests.rewards.constraints.asked import follows, verdict

AT_LEAST = "at least"

# id, kwargs, a response that only the repaired rule passes or only the upstream one
REPAIRED_ONLY: list[tuple[str, dict[str, Any], str]] = [
    ("keywords:forbidden_words", {"forbidden_words": ["a.b"]}, "axb"),
    ("keywords:word_once", {"keyword": "art"}, "The art at the start."),
    ("count:count_increment_word", {"keyword1": "art", "keyword2": "oak"}, "Art, oak, oak, start."),
    (
        "length_constraints:nth_paragraph_first_word",
        {"num_paragraphs": 2, "nth_paragraph": 2, "first_word": "boats"},
        "Hills.\n\n\n\nBoats.",
    ),
    ("paragraphs:paragraphs2", {}, "One.\n\n\n\nTwo."),
    ("count:count_unique", {}, "Rain fell. Snow came."),
    (
        "count:counting_composition",
        {"n_sent": 1, "n_words": 2},
        "Cats run.\n* * *\nDogs run.\n* * *\nBees hum.",
    ),
    ("first_word:first_word_answer", {"first_word": "indeed"}, "Indeed, it rains."),
    ("first_word:first_word_sent", {"first_word": "so"}, "So, it rains. So we stay."),
    ("last_word:last_word_sent", {"last_word": "don't"}, "I don't."),
    ("keywords:keyword_specific_position", {"keyword": "amber", "n": 1, "m": 2}, "“Old Amber.”"),
    ("detectable_format:sentence_hyphens", {}, "The well-known path.-We rested."),
    ("startend:quotation", {}, "“We sail.”"),
    ("startend:end_checker", {"end_phrase": "Bye."}, "**Bye.**"),
    ("change_case:english_capital", {}, "GO HOME NOW."),
    ("keywords:no_adjacent_consecutive", {}, "1 2 3"),
    (
        "letters:letter_counting",
        {"N": 1, "relation": AT_LEAST},
        "é",
    ),
    ("count:lowercase_counting", {"N": 1}, "don't"),
    (
        "detectable_format:number_bullet_lists",
        {"num_bullets": 1},
        "- one\n---",
    ),
]
UPSTREAM_ONLY: list[tuple[str, dict[str, Any], str]] = [
    ("keywords:existence", {"keywords": ["c.t"]}, "concatenate cut"),
    ("keywords:frequency", {"keyword": "war", "frequency": 2, "relation": AT_LEAST}, "toward wars"),
    (
        "keywords:word_count_different_numbers",
        {"keyword": "war", "frequency": 2, "relation": AT_LEAST},
        "toward wars",
    ),
    ("keywords:exclude_word_harder", {"keyword": "engine"}, "Stop the engine."),
    ("language:response_language", {"language": "de"}, "12345"),
    ("change_case:capital_word_frequency",
     {"capital_frequency": 2, "capital_relation": AT_LEAST}, "I saw 4C"),
    ("length_constraints:number_sentences",
     {"num_sentences": 2, "relation": AT_LEAST}, '"Why?" he asked.'),
    ("length_constraints:number_paragraphs", {"num_paragraphs": 2}, "One***Two"),
    ("paragraphs:paragraphs", {}, "One***Two"),
    ("detectable_content:number_placeholders", {"num_placeholders": 1}, "[]"),
    ("detectable_content:postscript", {"postscript_marker": "P.S."}, "P.S.\n\nThe letter."),
    ("detectable_content:postscript", {"postscript_marker": "PS"}, "corps"),
    ("detectable_format:constrained_response", {}, "My answer is no. My answer is yes."),
    ("detectable_format:number_highlighted_sections", {"num_highlights": 1}, "2 * 3 * 4"),
    ("detectable_format:multiple_sections",
     {"section_spliter": "Section", "num_sections": 2}, "In Section 1 and Section 2."),
    ("detectable_format:json_format", {}, "NaN"),
    ("detectable_format:title", {}, "<< - >>"),
    ("detectable_format:square_brackets", {}, "[] []"),
    ("detectable_format:bigram_wrapping", {}, "home"),
    ("combination:two_responses", {}, "North.******north"),
    ("combination:repeat_prompt", {"prompt_to_repeat": "Name it."}, "Name it."),
    ("keywords:palindrome", {}, "A slope."),
]  # fmt: skip


@pytest.mark.parametrize(("id", "kwargs", "response"), REPAIRED_ONLY)
def test_upstream_rejects_what_the_documented_meaning_accepts(
    id: str, kwargs: dict[str, Any], response: str
) -> None:
    assert follows(id, kwargs, response)
    assert not follows(id, kwargs, response, mode="upstream")


@pytest.mark.parametrize(("id", "kwargs", "response"), UPSTREAM_ONLY)
def test_upstream_accepts_what_the_documented_meaning_rejects(
    id: str, kwargs: dict[str, Any], response: str
) -> None:
    assert not follows(id, kwargs, response)
    assert follows(id, kwargs, response, mode="upstream")


def test_a_keyword_that_is_no_regular_expression_is_bad_gold_upstream_alone() -> None:
    found = verdict("keywords:existence", {"keywords": ["(a"]}, "x (a", mode="upstream")
    assert (found.status, found.reason) == ("abstained", "bad_gold")
    assert "(a" in (found.detail or "")
    assert follows("keywords:existence", {"keywords": ["(a"]}, "x (a")


@pytest.mark.parametrize(
    ("text", "sentences"),
    [
        ("We left. He ran!", ["We left.", "He ran!"]),
        ("We left.He ran", ["We left.", "He ran"]),
        (
            "Dr. Hill paid 3.14 at a.com. Wait... no",
            ["Dr. Hill paid 3.14 at a.com.", "Wait...", "no"],
        ),
        ("Acme Inc. He left. Acme Inc. sold", ["Acme Inc", "He left.", "Acme Inc. sold"]),
        ("A Ph.D. in the U.S. It is.", ["A Ph.D. in the U.S.", "It is."]),
        ('"Go." "Why?" Yes?!', ['"Go".', '"Why"?', "Yes?", "!"]),
    ],
)
def test_sentences_of_the_regular_expressions(text: str, sentences: list[str]) -> None:
    assert regex_sentences(text) == sentences


@pytest.mark.parametrize(
    ("text", "sentences"),
    [
        ("Dr. Hill of Acme Inc. left. We ran.", ["Dr. Hill of Acme Inc. left.", "We ran."]),
        ("Acme Inc. The end. J. Hill", ["Acme Inc.", "The end.", "J. Hill"]),
        ('"Why?" he asked. Wait... no', ['"Why?"', "he asked.", "Wait... no"]),
        ("Buy:\n1. milk\n\nEat", ["Buy:\n1. milk\n\nEat"]),
    ],
)
def test_sentences_of_the_trained_splitter(text: str, sentences: list[str]) -> None:
    assert punkt_sentences(text) == sentences


@pytest.mark.parametrize(
    ("text", "tokens"),
    [
        ("I can't, won't.", "I ca n't , wo n't ."),
        ('He said: "Go, Ann!"', "He said : `` Go , Ann ! ''"),
        ("Cannot gonna John's dogs'", "Can not gon na John 's dogs '"),
        ("3,500 at 5:30 -- $5 (a) [b]...", "3,500 at 5:30 -- $ 5 ( a ) [ b ] ..."),
        ("rock-'n'-roll 'quoted' e.g. U.S.", "rock-'n'-roll ' quoted ' e.g . U.S ."),
    ],
)
def test_tokens(text: str, tokens: str) -> None:
    assert treebank(text) == tokens.split()


@settings(deadline=None)
@given(st.text(st.sampled_from("aB .!?\"'`,;-\n(é…"), max_size=40))
def test_tokens_keep_every_letter(text: str) -> None:
    kept = [letter for token in treebank(text) for letter in token if letter.isalpha()]
    assert kept == [letter for letter in text if letter.isalpha()]
