"""Where the public IFBench rules decide otherwise than the documented meaning: both verdicts."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rewards.verifiers.constraints.ifbench import public
from tests.rewards.constraints.test_ifbench import follows

_SPAN = {"prompt_to_repeat": "Name six lakes", "n_start": 1, "n_end": 2}
_KEYWORDS = {f"keyword{n}": word for n, word in enumerate(("ant", "bee", "cow", "doe", "eel"), 1)}
_COUNTED = "giant bee bee cow cow cow " + "doe " * 5 + "eel " * 7
_CITY = "\n".join(["ID,Country,City,Year,Count", *["1,Chad,Moundou,2001,3"] * 7])
_STAIRS = "a\n\n\n b\n  c"

DIFFERENT = [
    ("count:unique_word_count", {"N": 3}, "red fox -", True),
    ("count:conjunctions", {"small_n": 2}, "And and", True),
    ("count:numbers", {"N": 1}, "10-12", True),
    ("count:numbers", {"N": 2}, "10-12", False),
    ("count:punctuation", {}, "Well, yes; no: go. What‽ Sure?!", False),
    ("count:words_japanese", {"N": 9}, "Too short.", True),
    ("count:pronouns", {"N": 1}, "The US sells thyme.", True),
    ("count:keywords_multiple", _KEYWORDS, _COUNTED, True),
    ("ratio:sentence_type", {}, "Hooray!", True),
    ("ratio:sentence_type", {}, '"We left." It rained. Why?', False),
    ("ratio:sentence_balance", {}, "none", True),
    ("ratio:overlap", {"percentage": 60, "reference_text": "abcde"}, "abcdefg", True),
    ("ratio:sentence_words", {}, "Cat. Cat. Cat.", True),
    ("sentence:alliteration_increment", {}, "Big bears. Red rocks, tall trees.", True),
    ("sentence:increment", {"small_n": 1}, "We sat.", True),
    ("words:consonants", {}, "Strong winds – blast!", False),
    ("words:palindrome", {}, "12321 " * 10, True),
    ("words:prime_lengths", {}, "Aren’t", False),
    ("words:last_first", {}, "We saw rain.", True),
    ("words:paragraph_last_first", {}, "Home, sweet home.", False),
    ("words:no_consecutive", {}, "Old tax\nTax law", False),
    ("words:words_position", {"keyword": "moss"}, '"The moss on this moss grew."', False),
    (
        "words:keywords_specific_position",
        {"keyword": "buy", "n": 1, "m": 2},
        "Don't buy moss.",
        False,
    ),
    ("words:odd_even_syllables", {}, "Getting ready", True),
    ("format:parentheses", {}, "(((((a)", True),
    ("format:quotes", {}, "It's \"a 'b' c\" x'", True),
    ("format:options", {"options": "orange or red"}, "ange", True),
    ("format:options", {"options": "a), b), c)"}, "b)\n", False),
    ("format:newline", {}, "Rain falls\n \nnow", True),
    ("format:emoji", {}, "We won 👩‍🚀❤️\u200d.", False),
    ("format:title_case", {}, "THE GREEN HILLS", True),
    ("format:title_case", {}, "The Lord of the Rings", False),
    ("format:no_whitespace", {}, "Rain\u200bsnow", True),
    (
        "format:output_template",
        {},
        "Future Outlook: My Conclusion: My Answer:",
        True,
    ),
    ("format:line_indent", {}, _STAIRS, False),
    ("format:quote_unquote", {}, "No quotation.", True),
    ("format:quote_unquote", {}, "He said “slow”.", True),
    ("format:list", {"sep": "-"}, "A well-known, up-to-date pear", True),
    ("format:thesis", {}, "It warms. <i>Tea calms.</i> Yes.", True),
    ("format:sub-bullets", {}, "No bullets.", True),
    ("format:sub-bullets", {}, "* **Fruit**\n  - pear", False),
    ("format:no_bullets_bullets", {}, "We came! We saw!\n* one\n* two", True),
    ("format:no_bullets_bullets", {}, "We came. We saw.\n* one\n* two\n", False),
    ("custom:multiples", {}, "14, 21, -28, 35, 42, 49", True),
    ("custom:word_reverse", {}, "The symbol is the eagle bald.", True),
    ("custom:character_reverse", {}, "The answer is elgae dlab.", True),
    ("custom:date_format_list", {}, "1805-00-10", True),
    ("custom:date_format_list", {}, "1805-02-29", True),
    ("custom:date_format_list", {}, "1805-12-02.", False),
    ("custom:csv_city", {}, f"```\n{_CITY}\n```", False),
    ("custom:csv_city", {}, f"{_CITY}\n\n", False),
    ("repeat:repeat_change", {"prompt_to_repeat": "Moss."}, "Moss. ", True),
    ("repeat:repeat_span", _SPAN, "am", True),
]


@pytest.mark.parametrize(("id", "params", "response", "public_verdict"), DIFFERENT)
def test_the_public_rule_decides_otherwise(
    id: str, params: dict[str, Any], response: str, public_verdict: bool
) -> None:
    assert follows(id, params, response, "upstream") is public_verdict
    assert follows(id, params, response, "repaired") is not public_verdict


@pytest.mark.parametrize(
    ("text", "sentences"),
    [
        ("We left. It rained!", ["We left.", "It rained!"]),
        ('"Why?" he asked.', ['"Why?"', "he asked."]),
        ("Mr. Fox left. So did I.", ["Mr. Fox left.", "So did I."]),
        ("So... That dog", ["So... That dog"]),
        ("Pi is 3.14 here", ["Pi is 3.14 here"]),
        ("Go!!", ["Go!", "!"]),
        ("What?! Yes.", ["What?!", "Yes."]),
        ("Tea, coffee, etc. They help", ["Tea, coffee, etc.", "They help"]),
        ("", []),
    ],
)
def test_sentences_are_those_of_the_public_splitter(text: str, sentences: list[str]) -> None:
    assert public.sentences(text) == sentences


@given(st.text(alphabet="aB .!?\"')\n", max_size=60))
def test_no_character_but_white_space_is_lost_between_sentences(text: str) -> None:
    assert "".join("".join(public.sentences(text)).split()) == "".join(text.split())
