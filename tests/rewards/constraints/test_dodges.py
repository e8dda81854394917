"""Texts that seemed to follow an instruction to a program and not to a reader, and honest ones."""

from typing import Any

import pytest

from tests.rewards.constraints.asked import follows

LESS, AT_LEAST = "less than", "at least"
BLANKS = "\u180e\u115f\u1160\u3164\uffa0\u2800\u200b\u2060\ufeff\u200c\u2063\u3000\u2028"
WAR = [
    "w\u200bar", "w\u2060a\u00adr", "ｗａｒ", "ⓦⓐⓡ", "🆆🅰🆁", "𝐰𝐚𝐫", "ᴡᴀʀ", "w̷a̷r̷",  # Forms.
    "**w**ar", "w**a**r", "w<b>a</b>r", "wаr", "ԝаr", "WАR", "wαr",  # Emphasis, other scripts.
]  # fmt: skip
POEM = {"prompt_to_repeat": "Write a poem"}
SECTIONS = {"section_spliter": "Section", "num_sections": 2}
A_TOOL = '<|tools_prefix|>[{"x": {}}]<|tools_suffix|>'

# id, kwargs, responses that follow, responses that do not, whether upstream takes the latter
CASES: list[tuple[str, dict[str, Any], list[str], list[str], bool]] = [
    (
        "punctuation:no_comma",
        {},
        ["面包，奶酪。", "Er sagte ‚ja‘ laut", "I don’t"],
        ["a，b", "a、b", "a،b", "a‚b", "a︐b", "a﹐b", "aꓹb"],
        True,
    ),
    ("punctuation:punctuation_dot", {}, ["一。"], ["a。", "a．", "a…", "a․", "a｡"], True),
    ("punctuation:punctuation_exclamation", {}, ["a?"], ["a！", "‼", "¡a", "❗", "aǃ"], True),
    (
        "keywords:forbidden_words",
        {"forbidden_words": ["war", "peace"]},
        ["Toward the ware.", "warе", "wär"],
        ["The РЕАСЕ ended.", "The pe\u200bace."],
        True,
    ),
    (
        "keywords:exclude_word_harder",
        {"keyword": "war"},
        ["Toward the ware."],
        [f"The {war} ended." for war in WAR],
        True,
    ),
    (
        "keywords:existence",
        {"keywords": ["оса"]},
        ["The оса flew.", "Это оса. Да."],
        ["oca"],
        False,
    ),
    ("keywords:word_once", {"keyword": "Acme"}, ["Acme™ sold."], ["Acme, Ac\u200bme"], True),
    ("sentence:keyword", {"word": "war", "N": 1}, ["The w\u200bar."], ["The wa r."], False),
    (
        "keywords:letter_frequency",
        {"letter": "a", "let_frequency": 2, "let_relation": LESS},
        ["b а", "a"],
        ["ⓐⓐ ａ", "аa b", "bаr cаr", "𝐚𝐚"],
        True,
    ),
    (
        "letters:letter_counting2",
        {"letter": "#", "let_frequency": 2, "let_relation": AT_LEAST},
        ["##"],
        ["#"],
        False,
    ),
    ("letters:letter_counting", {"N": 2, "relation": LESS}, ["a"], ["ⓐⓑⓒ", "🅰🅱"], True),
    (
        "letters:letter_counting",
        {"N": 4, "relation": AT_LEAST},
        ["rain"],
        ["\u3164" * 9, "aـــــ"],
        False,
    ),
    (
        "length_constraints:number_sentences",
        {"num_sentences": 2, "relation": LESS},
        [
            "See example.Com for it.",
            "Go to https://a.b/is.Two now.",
            "A Ph.D. in maths, e.g.The one.",
            "Use Node.Js, foo.Bar() and pd.DataFrame now.",
            "Open report.PDF as ann@is.Two said.",
        ],
        [
            "One is.Two is.Three is.Four is.",
            "One is!Two is.",
            "One is.TWO is.",
            "**One is.**Two is.",
            "One is.\u200bTwo is.",
            "Is it?I am.",
        ],
        True,
    ),
    (
        "length_constraints:number_sentences",
        {"num_sentences": 2, "relation": LESS},
        ["It costs 3．14."],
        ["One is．Two is．"],
        True,
    ),
    (
        "length_constraints:number_words",
        {"num_words": 2, "relation": LESS},
        ["This."],
        ["this_is_one_very_long_answer_of_many_words", "this\u3164is"],
        True,
    ),
    (
        "length_constraints:number_words",
        {"num_words": 4, "relation": AT_LEAST},
        ["One _two_ **three** four"],
        ["a\u200bb\u200bc\u200bd", "_ _ _ _", "a**b**c**d**e"],
        True,
    ),
    (
        "count:word_count_range",
        {"min_words": 1, "max_words": 2},
        ["One two", "½ cup"],
        ["this_is_long"],
        True,
    ),
    (
        "combination:repeat_prompt",
        POEM,
        ["Write a poem\nRoses", "Write a poem: roses", "Write a poem - roses"],
        ["Write a poems", "Write a poem's", "Write a poem-like", "Write a poem _"],
        True,
    ),
    (
        "combination:repeat_prompt",
        {"prompt_to_repeat": "写一首诗"},
        ["写一首诗春天来了"],
        ["写一首诗\u3164"],
        True,
    ),
    (
        "detectable_format:number_highlighted_sections",
        {"num_highlights": 2},
        ["*a* *b*"],
        ["*.* *,*", "*\u200b* *\u3164*", "*_* *_*"],
        True,
    ),
    ("detectable_format:title", {}, ["<<Sea>>"], ["<<\u3164>>"], True),
    (
        "detectable_format:multiple_sections",
        SECTIONS,
        ["Section 1\nSection 2"],
        ["Section 1\nSection 1"],
        True,
    ),
    (
        "detectable_format:multiple_sections",
        SECTIONS,
        ["## SECTION 1\nA.\n## SECTION 2"],
        ["## SECTION 1"],
        False,
    ),
    (
        "custom:date_format_list",
        {},
        ["1805-12-02, 1806-10-14"],
        ["1805-12-02, 1805-12-02"],
        True,
    ),
    (
        "startend:quotation",
        {},
        ['"He said "go" to me"', '"A 5"x7 card"', '"say \\"a\\" now"', '"“a” and “b”"'],
        ['"a" and "b"', '"Hello," she said, "come."', '"a"\n"b"', '"a", "b"'],
        True,
    ),
    (
        "startend:quotation",
        {},
        ["“He said “go” now”", "„Wir segeln.“"],
        ["“a” and “b”", "«a» et «b»"],
        False,
    ),
    ("format:no_whitespace", {}, ["👩‍🚀❤️a"], [f"a{blank}b" for blank in BLANKS[:-2]], True),
    ("format:newline", {}, ["this\nis"], ["this\u3164is\nso"], True),
    ("count:count_unique", {}, ["the thin"], ["the t\u200bhe", "the thе"], True),
    ("words:repeats", {"small_n": 1}, ["the thin"], ["the thе", "the t\u200bhe"], True),
    ("punctuation:no_comma", {}, [f"{A_TOOL}[a b] c"], [f'{A_TOOL}["a, b, c"] done'], False),
]


@pytest.mark.parametrize(
    ("id", "kwargs", "response"),
    [(id, kwargs, response) for id, kwargs, right, *_ in CASES for response in right],
)
def test_an_honest_text_follows(id: str, kwargs: dict[str, Any], response: str) -> None:
    assert follows(id, kwargs, response)


@pytest.mark.parametrize(
    ("id", "kwargs", "response"),
    [(id, kwargs, response) for id, kwargs, _, wrong, _ in CASES for response in wrong],
)
def test_a_dodge_does_not_follow(id: str, kwargs: dict[str, Any], response: str) -> None:
    assert not follows(id, kwargs, response)


@pytest.mark.parametrize(
    ("id", "kwargs", "response"),
    [(id, kwargs, response) for id, kwargs, _, wrong, public in CASES for response in wrong
     if public],
)  # fmt: skip
def test_upstream_is_still_taken_in(id: str, kwargs: dict[str, Any], response: str) -> None:
    assert follows(id, kwargs, response, mode="upstream")


@pytest.mark.parametrize("war", WAR)
def test_a_reader_finds_the_word_in_any_form(war: str) -> None:
    assert follows("keywords:existence", {"keywords": ["war"]}, f"The {war} ended.")
    assert not follows("keywords:forbidden_words", {"forbidden_words": ["war"]}, f"The {war}.")


def test_an_environments_output_is_hidden_where_the_item_says_so() -> None:
    response = f'{A_TOOL}["a, b"] done'
    assert follows("punctuation:no_comma", {}, response, tool_output="hidden")
    assert not follows("punctuation:no_comma", {}, response, tool_output="said")
