"""The 29 IF-RLVR instructions by their repaired rules: what follows each, and what does not."""

from typing import Any

import pytest

from tests.rewards.constraints.asked import follows

AT_LEAST, LESS = "at least", "less than"
WATCHING = {"phrase": "Dance like nobody is watching you", "small_n": 2}
BIRDS = {"prompt_to_repeat": "List two birds."}
TWICE = {"keyword": "tide", "frequency": 2, "relation": AT_LEAST}
COMPOSED = "Cats run fast. Dogs don't bark.\n* * *\nBirds sing well. Fish swim deep."

# id, kwargs, responses that follow, responses that do not
CASES: list[tuple[str, dict[str, Any], list[str], list[str]]] = [
    (
        "copy:repeat_phrase",
        WATCHING,
        [
            "Dance like anyone is watching you. Dance like nobody was watching you!",
            "“dance like nobody sees watching you”\n- Dance with nobody is watching you",
        ],
        [
            "Dance like anyone is watching you.",
            "Dance like anyone is watching you. Dance like nobody is watching you.",
            "Dance like anyone was watching you. Dance like nobody was watching you.",
            "Sing like nobody is watching you. Dance like nobody is watching me.",
            "Dance like anyone is watching you. " * 3,
        ],
    ),
    (
        "copy:copy",
        BIRDS,
        ["List two birds.", " LIST two birds.\n"],
        ["List two birds. Owl.", "List  two birds.", "Owl."],
    ),
    ("copy:copying_simple", BIRDS, ["list two birds."], ["List two birds", "Owl and wren."]),
    (
        "copy:copying_multiple",
        BIRDS | {"N": 2},
        ["List two birds.\n******\nlist two birds."],
        ["List two birds.", "List two birds.\n***\nList two birds.", "List two birds.******"],
    ),
    (
        "new:copy_span_idx",
        {"prompt_to_repeat": "abcdefghij klm", "n_start": 0, "n_end": 3},
        ["abc", " ABC\n"],
        ["abcd", "bcd", "abc."],
    ),
    (
        "detectable_format:sentence_hyphens",
        {},
        ["We walked.-We rested.", "The well-known path ends!-“Is it?”-We rest.", "We walked."],
        [
            "We walked. We rested.",
            "We walked.- We rested.",
            "We walked. -We rested.",
            "We walked.We rested.-We slept.",
            "We walked-We rested",
            "We walked.-We rested. We slept.",
        ],
    ),
    (
        "keywords:no_adjacent_consecutive",
        {},
        ["Birds arrive late", "Zebra ant", "1 2 3", "(a) fig"],
        ["A bird sings", "late “moon”", "Red (sun)"],
    ),
    (
        "detectable_format:square_brackets",
        {},
        ["[We] [left] [early.]", "[one][two]"],
        ["[We] left", "We left", "[We left]", "[] []", "[We]x[left]"],
    ),
    (
        "keywords:word_once",
        {"keyword": "art"},
        ["The art hung at the start.", "ART!"],
        ["Art is art.", "The start."],
    ),
    (
        "keywords:word_count_different_numbers",
        TWICE,
        ["Tide after tide."],
        ["The tide.", "tidings betide"],
    ),
    (
        "keywords:word_count_different_numbers",
        TWICE | {"relation": LESS},
        ["The tide."],
        ["Tide after tide."],
    ),
    (
        "keywords:exclude_word_harder",
        {"keyword": "engine"},
        ["The motor ran.", "An engineer came."],
        ["The engine ran.", "Engine", "Stop the engine."],
    ),
    (
        "paragraphs:paragraphs",
        {},
        ["One.\n***\nTwo.", "***\nOne.\n\n***\n\nTwo."],
        ["One.", "One.\n***\nTwo.\n***\nThree.", "One.\n\nTwo.", "One.\n***\n***\nTwo."],
    ),
    (
        "paragraphs:paragraphs2",
        {},
        ["One.\n\nTwo.", "One.\n\n\n\nTwo.\n", "One,\nstill one.\n \nTwo."],
        ["One.\nTwo.", "One.\n\nTwo.\n\nThree."],
    ),
    (
        "first_word:first_word_sent",
        {"first_word": "still"},
        ["Still waters run. Still, nights pass.", "“Still?” - Still!"],
        ["Still waters run. Nights pass.", "Stillness. Still.", "Still-life. Still."],
    ),
    ("first_word:first_word_sent", {"first_word": ["don't"]}, ["Don’t go."], ["Do not go."]),
    (
        "first_word:first_word_answer",
        {"first_word": "indeed"},
        ["Indeed, it rains.", "**Indeed** it rains. Well."],
        ["Well indeed.", "...", "Indeedy."],
    ),
    (
        "last_word:last_word_sent",
        {"last_word": "home"},
        ["They went home. She stayed (home)!"],
        ["They went home. She left.", "The homes.", "back-home."],
    ),
    (
        "last_word:last_word_answer",
        {"last_word": "home"},
        ["They came home.", "They left. “Home”…"],
        ["Home they came.", "..."],
    ),
    (
        "detectable_format:bigram_wrapping",
        {},
        ["<<I am>> <<at home>>", "<<I am>>\n<<home.>>", "<<Home>>"],
        ["I am at home", "Home", "<<I am>> home", "<<I>> <<am>>", "<<I am at>> <<home now>>"],
    ),
    ("punctuation:punctuation_dot", {}, ["No dot here!"], ["A dot.", "3.14"]),
    ("punctuation:punctuation_exclamation", {}, ["Calm."], ["Loud!"]),
    (
        "count:lowercase_counting",
        {"N": 2},
        ["RAIN fell TODAY", "I DON'T don't well-known", "ÉTÉ"],
        ["rain fell today", "été été été"],
    ),
    (
        "letters:letter_counting",
        {"N": 4, "relation": AT_LEAST},
        ["rain", "é-t-é-s"],
        ["two", "a1b2c3"],
    ),
    ("letters:letter_counting", {"N": 4, "relation": LESS}, ["two 123"], ["rain"]),
    (
        "letters:letter_counting2",
        {"letter": "l", "let_frequency": 2, "let_relation": AT_LEAST},
        ["Lil"],
        ["Owl"],
    ),
    (
        "count:counting_composition",
        {"n_sent": 2, "n_words": 3},
        [COMPOSED + "\n* * *\nBees hum low. Ants walk far!"],
        [
            COMPOSED,
            COMPOSED + "\n* * *\nBees hum low.",
            COMPOSED + "\n* * *\nBees hum. Ants walk far.",
        ],
    ),
    (
        "count:count_unique",
        {},
        ["Rain fell. Snow came, then left.", '"Go," she said.'],
        ["Rain fell upon rain.", "The sea. The sky."],
    ),
    (
        "count:count_increment_word",
        {"keyword1": "moss", "keyword2": "fern"},
        ["Moss by a fern and a fern.", "Mossy moss: fern, fern, ferns."],
        ["Moss and fern.", "Moss, moss, fern, fern.", "Moss, fern, fern, fern."],
    ),
    (
        "keywords:palindrome",
        {},
        ["It was a Level, he said.", "Step on no pets."],
        ["A slope was I.", "The slope.", "...", "11"],
    ),
    (
        "keywords:keyword_specific_position",
        {"keyword": "amber", "n": 2, "m": 3},
        ["We dug. We found amber there.", "Oh! “Well, old Amber,” he said."],
        ["We dug amber.", "We dug. We found old amber.", "We dug. Found amber.", "A. B."],
    ),
    (
        "keywords:start_end",
        {},
        ["Home is where we call home", "“Home” is a home\n"],
        ["Home is home.", "Home", "Home is here"],
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
    assert len({id for id, *_ in CASES}) == 29
