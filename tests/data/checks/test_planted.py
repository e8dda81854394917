"""A planted set of its own making: prose whose prompts were changed as copies are, and clean prose.

Independent of what the check plants itself: other texts, other changes.
"""

import random
import re
from collections.abc import Callable
from functools import cache

import pytest

from posttrain.data.checks.decontamination import Benchmarks
from posttrain.data.checks.rows import Place, Row
from posttrain.data.tokenizer import train_tokenizer
from tests.data.checks.samples import chat, dataset, dialogue

DRAW = random.Random(11)
SYLLABLES = [a + b for a in "bdfgklmnprst" for b in ("a", "e", "i", "o", "u", "an", "er", "in")]
WORDS = ["".join(DRAW.choices(SYLLABLES, k=DRAW.randint(1, 3))) for _ in range(400)]


def sentence(draw: random.Random, end: str) -> str:
    words = draw.choices(WORDS, k=draw.randint(8, 14))
    for at in range(3, len(words) - 1, draw.randint(3, 6)):
        words[at] += ","
    return " ".join(words).capitalize() + end


def prose(draw: random.Random, sentences: int) -> str:
    return " ".join(sentence(draw, ".") for _ in range(sentences))


PROMPTS = [prose(DRAW, DRAW.randint(1, 4)) + " " + sentence(DRAW, "?") for _ in range(80)]
CLEAN = [dialogue(prose(DRAW, DRAW.randint(1, 30)), prose(DRAW, 3)) for _ in range(300)]

CHANGES: dict[str, Callable[[str], str]] = {
    "as it was": lambda text: text,
    "upper case": str.upper,
    "lines broken": lambda text: text.replace(" ", "\n  "),
    "no punctuation": lambda text: re.sub(r"[.,?]", "", text),
    "other punctuation": lambda text: re.sub(r"[.,?]", " -", text),
    "in quotes": lambda text: f"«{text}»",
    "in JSON": lambda text: f'{{"question":"{text}"}}',
    "in Markdown": lambda text: f"**{text}**",
    "full width": lambda text: text.replace("a", "ａ").replace("?", "？"),
    "spaces that do not break": lambda text: text.replace(" ", "\u00a0"),
    "joiners between words": lambda text: text.replace(" ", "\u200b "),
    "soft hyphens": lambda text: "\u00ad".join(re.findall(".{1,7}", text)),
    "the first two thirds": lambda text: text[: 2 * len(text) // 3],
    "the last two thirds": lambda text: text[len(text) // 3 :],
    "within a long document": lambda text: f"{prose(DRAW, 60)} {text} {prose(DRAW, 60)}",
}


@cache
def benchmarks(knows_words: bool) -> Benchmarks:
    """Over a tokenizer that has the words, or over one that spells them out."""
    tokenizer = train_tokenizer([prose(DRAW, 3000)], 1500) if knows_words else chat().tokenizer
    return Benchmarks([dataset([dialogue(text, "x") for text in PROMPTS], "exam")], tokenizer)


def share_found(rows: list[Row], over: Benchmarks) -> float:
    return sum(bool(found) for _, found, _ in over.scan(rows)) / len(rows)


@pytest.mark.parametrize("knows_words", [True, False])
@pytest.mark.parametrize("speaker", [0, 1])
@pytest.mark.parametrize("change", CHANGES)
def test_a_changed_prompt_is_found(change: str, speaker: int, knows_words: bool) -> None:
    rows = []
    for number, prompt in enumerate(PROMPTS):
        row = dialogue("so", "so")
        row["messages"][speaker]["content"] = CHANGES[change](prompt)
        rows.append(Row(Place("talk", "talk.jsonl", number), row))
    assert share_found(rows, benchmarks(knows_words)) >= 0.98


@pytest.mark.parametrize("knows_words", [True, False])
def test_clean_prose_stays(knows_words: bool) -> None:
    """A tokenizer that spells words out made one row in seven look contaminated."""
    rows = [Row(Place("talk", "talk.jsonl", n), row) for n, row in enumerate(CLEAN)]
    found = benchmarks(knows_words)
    assert share_found(rows, found) <= 0.01
    assert (found.pieces > 2) != knows_words
