"""A format over a small tokenizer, documents to ask about, and what a row says, read anew."""

import random
import re
from functools import cache
from itertools import groupby
from typing import Any

from posttrain.data import tiny
from posttrain.data.chat import ChatFormat
from posttrain.data.longcontext.haystack import sentence
from posttrain.data.longcontext.sources import Document
from posttrain.data.longcontext.windows import Level
from posttrain.data.tokenizer import row_texts, train_tokenizer


@cache
def chat() -> ChatFormat:
    """The chat format over a tokenizer of tiny rows and the sentences of diaries."""
    texts = [
        text for row in tiny.dialogues(0, 300) + tiny.corpus(0, 300) for text in row_texts(row)
    ]
    return ChatFormat.from_tokenizer(train_tokenizer([*texts, diary(0, 200)], 900))


def diary(seed: int, days: int) -> str:
    """A text with words that repeat, an order, and characters of several bytes."""
    draw = random.Random(seed)
    return "".join(f"Day {day} – {sentence(draw)} 🌧️\n" for day in range(1, days + 1))


def document(text: str, level: Level = "hard") -> Document:
    """A source document of that text."""
    return Document(text, chat().encode(text), level)


def said(row: dict[str, Any], role: str) -> list[str]:
    """What `role` says in a row."""
    return [each["content"] for each in row["messages"] if each["role"] == role]


def learned(row: dict[str, Any]) -> list[str]:
    """The texts of a row that the loss counts, one for each run of targets, read from its tokens.

    The only control tokens among them are the assistant's end markers.
    """
    rendered = chat().render(row)  # type: ignore[arg-type]
    end = chat().control["<|assistant_end|>"]
    found = []
    for target, run in groupby(zip(rendered.ids, rendered.mask, strict=True), lambda pair: pair[1]):
        ids = [token for token, _ in run if token != end]
        assert not target or not set(ids) & set(chat().control.values())
        found += [str(chat().tokenizer.decode(ids))] if target else []
    return found


def sections(text: str) -> dict[int, str]:
    """The sections shown in a question, by their numbers."""
    body = text[: text.rindex("\n\n")]
    found = re.split(r"(?:^|\n\n)\[Section (\d+)\]\n", body)
    return {int(found[at]): found[at + 1] for at in range(1, len(found), 2)}
