"""The 25 IFEval instructions by their repaired rules: what follows each, and what does not."""

from typing import Any

import pytest

from tests.rewards.constraints.asked import follows

AT_LEAST, LESS = "at least", "less than"
PARAGRAPHS = {"num_paragraphs": 3, "nth_paragraph": 2, "first_word": "boats"}
LAKES = {"prompt_to_repeat": "Name three lakes."}
TWO_SECTIONS = {"section_spliter": "Section", "num_sections": 2}

# id, kwargs, responses that follow, responses that do not
CASES: list[tuple[str, dict[str, Any], list[str], list[str]]] = [
    (
        "keywords:existence",
        {"keywords": ["oak tree", "don't"]},
        ["An Oak\ntree: I DON’T climb it.", "_oak tree_ (don't)"],
        ["The oak trees; don't.", "An oak. A tree. I don't.", "don't"],
    ),
    (
        "keywords:existence",
        {"keywords": ["c++", ".net"]},
        ["C++ and .NET"],
        ["C and anet", "c+ .net"],
    ),
    ("keywords:existence", {"keywords": ["面包"]}, ["我吃面包。"], ["我吃奶酪。"]),
    (
        "keywords:frequency",
        {"keyword": "river", "frequency": 2, "relation": AT_LEAST},
        ["River by river.", "river-bank, river's"],
        ["A river.", "riverside rivers river"],
    ),
    (
        "keywords:frequency",
        {"keyword": "river", "frequency": 2, "relation": LESS},
        ["A river.", "No stream."],
        ["River by river."],
    ),
    (
        "keywords:forbidden_words",
        {"forbidden_words": ["bug", "a.b"]},
        ["The debugger ran.", "axb"],
        ["A Bug.", "It is (bug)", "See a.b!"],
    ),
    (
        "keywords:letter_frequency",
        {"letter": "L", "let_frequency": 3, "let_relation": AT_LEAST},
        ["Lull", "all owls"],
        ["ill", "none"],
    ),
    (
        "keywords:letter_frequency",
        {"letter": "#", "let_frequency": 2, "let_relation": AT_LEAST},
        ["#a #b"],
        ["#a b"],
    ),
    (
        "keywords:letter_frequency",
        {"letter": "e", "let_frequency": 1, "let_relation": LESS},
        ["cat"],
        ["Eel"],
    ),
    (
        "language:response_language",
        {"language": "fr"},
        ["Le vieil homme marchait lentement dans la forêt et pensait à son enfance."],
        ["The old man walked slowly through the forest.", "12345 67890", "..."],
    ),
    (
        "length_constraints:number_sentences",
        {"num_sentences": 2, "relation": AT_LEAST},
        ["It rained. We stayed in.", "Go! Now?", "我来了。你走了。", "One item:\n- red\n- blue"],
        ["Dr. Hill paid 3.14 euros, e.g. in cash.", '"Why?" he asked.', "It rained..."],
    ),
    (
        "length_constraints:number_sentences",
        {"num_sentences": 2, "relation": LESS},
        ["Mr. J. Smith of Acme Inc. left at 5 p.m. today."],
        ["It rained. We stayed in."],
    ),
    (
        "length_constraints:number_paragraphs",
        {"num_paragraphs": 2},
        ["One.\n***\nTwo.", "***\nOne.\n***\nTwo.\n***", "***Bold*** start.\n\n***\n\nTwo."],
        ["One.", "One.\n***\n***\nTwo.", "One.\n***\nTwo.\n***\nThree.", "One.\n\nTwo."],
    ),
    (
        "length_constraints:number_words",
        {"num_words": 4, "relation": AT_LEAST},
        ["One two three four", "well-known old song"],
        ["One two three", "one, two - three!"],
    ),
    (
        "length_constraints:number_words",
        {"num_words": 4, "relation": LESS},
        ["One two three"],
        ["I don't know", "One two three four"],
    ),
    (
        "length_constraints:nth_paragraph_first_word",
        PARAGRAPHS,
        ["Hills.\n\nBoats wait.\n\nEnd.", "Hills.\n\n\n\n**Boats**, moored.\n\nEnd."],
        ["Hills.\n\nBoats wait.", "Boats.\n\nHills.\n\nEnd.", "Hills.\n\nBoatsmen.\n\nEnd."],
    ),
    (
        "detectable_content:number_placeholders",
        {"num_placeholders": 2},
        ["Dear [name], come to [place].", "[[name]] [day]"],
        ["Dear [name].", "[] [ ]", "[home](a.b) and [name]", "- [x] done\n- [ ] not [name]"],
    ),
    (
        "detectable_content:postscript",
        {"postscript_marker": "P.S."},
        [
            "Well.\n\nP.S. Bring jam.",
            "Well. P.S. Bring jam.",
            "Well.\n\n**P.S.** Jam.\n\nP.P.S. Tea.",
        ],
        [
            "P.S. Jam.\n\nNow the letter.",
            "Well.\n\nP.P.S. Jam.",
            "Well.\nP.S.",
            "The P.S. line is up.",
        ],
    ),
    (
        "detectable_content:postscript",
        {"postscript_marker": "P.P.S"},
        ["Well.\nP.P.S Jam.", "Well.\np. p. s. Jam."],
        ["Well.\nP.S. Jam."],
    ),
    (
        "detectable_format:number_bullet_lists",
        {"num_bullets": 2},
        [
            "* one\n* two",
            "- one\n  - two",
            "* **Bold** one\n---\n* two\n***",
            "- 1\n- 2\n-5 degrees",
        ],
        ["* one", "* one\n* two\n* three", "**one**\n**two**", "---\n---", "1. one\n2. two"],
    ),
    (
        "detectable_format:constrained_response",
        {},
        ["My answer is yes.", "Well. My answer is maybe."],
        ["My answer is yes. My answer is no.", "My answer is yes", "Yes."],
    ),
    (
        "detectable_format:number_highlighted_sections",
        {"num_highlights": 2},
        ["*salt* and *oil*", "**salt** and *oil*", "* *salt*\n* ***oil***"],
        ["**salt**", "*salt*", "2 * 3 * 4 * 5", "* one\n* two\n* three", "** ** **"],
    ),
    (
        "detectable_format:multiple_sections",
        TWO_SECTIONS,
        [
            "Section 1\nA.\nSection 2\nB.",
            "**Section 1**\nA.\n## Section 2: x",
            "Section1\nSection2\nSection3",
        ],
        ["Section 1\nA.", "See Section 1 and Section 2.", "Section one\nSection two"],
    ),
    (
        "detectable_format:json_format",
        {},
        ['{"a": [1, null]}', '```json\n{"a": 1}\n```', "```\n[]\n```"],
        ["{'a': 1}", '{"a": NaN}', "-Infinity", 'Here: {"a": 1}', "[" * 100_000],
    ),
    (
        "detectable_format:title",
        {},
        ["<<The sea>>\nIt rose.", "It rose.\n<<a < b>>"],
        ["<<>>\nIt rose.", "<< -- >>", "<The sea>", "<<The\nsea>>"],
    ),
    (
        "combination:two_responses",
        {},
        ["North.\n******\nSouth.", "******\nNorth.\n******\nSouth.\n******"],
        [
            "North.",
            "North.\n******\nNORTH!",
            "A\n******\nB\n******\nC",
            "A\n*******\nB",
            "A\n***\nB",
        ],
    ),
    (
        "combination:repeat_prompt",
        LAKES,
        ["Name three lakes.\nComo, Onega, Erie.", "  name three lakes. Como."],
        ["Name three lakes.", "Sure. Name three lakes. Como.", "Como.", "Name three lakes.\n---"],
    ),
    (
        "startend:end_checker",
        {"end_phrase": "Any other questions?"},
        [
            "Done. Any other questions?",
            '"Done. any other\nquestions?"',
            "**Any other questions?**\n",
        ],
        ["Any other questions? Bye.", "Any other questions", "Many other questions?"],
    ),
    (
        "change_case:capital_word_frequency",
        {"capital_frequency": 2, "capital_relation": AT_LEAST},
        ["STOP and LOOK", "The U.S. and NASA", "COVID-19/SARS", "DON’T—STOP"],
        ["STOP", "I saw A man", "B2 and 4C", "iOS and McX"],
    ),
    (
        "change_case:capital_word_frequency",
        {"capital_frequency": 1, "capital_relation": LESS},
        ["I came."],
        ["I CAME."],
    ),
    (
        "change_case:english_capital",
        {},
        ["THE TRAIN LEAVES AT NOON.", "BIRDS SING.", "YES."],
        ["THE TRAIN LEAVES AT Noon.", "DER ZUG FÄHRT AB.", "12345"],
    ),
    (
        "change_case:english_lowercase",
        {},
        ["the train leaves at noon.", "birds sing."],
        ["The train leaves.", "der zug fährt am mittag ab.", "12345"],
    ),
    ("punctuation:no_comma", {}, ["Bread and jam."], ["Bread, jam.", "1,200"]),
    (
        "startend:quotation",
        {},
        ['"We sail."', "“We sail.”", '  "We" '],
        ["'We sail.'", '"We sail.', 'We "sail."', '"', '""', '" "'],
    ),
]


@pytest.mark.parametrize(
    ("id", "kwargs", "response"),
    [(id, kwargs, response) for id, kwargs, right, _ in CASES for response in right],
)
def test_it_is_followed(id: str, kwargs: dict[str, Any], response: str) -> None:
    assert follows(id, kwargs, response)


@pytest.mark.parametrize(
    ("id", "kwargs", "response"),
    [(id, kwargs, response) for id, kwargs, _, wrong in CASES for response in wrong],
)
def test_it_is_not_followed(id: str, kwargs: dict[str, Any], response: str) -> None:
    assert not follows(id, kwargs, response)


def test_each_instruction_has_cases() -> None:
    assert len({id for id, *_ in CASES}) == 25
