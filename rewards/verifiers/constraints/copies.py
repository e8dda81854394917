"""Copies: what a response repeats (`copy:*`, `new:copy_span_idx`, `combination:*`).

Case and white space at the ends never count; all else of a copied text does.
"""

import re
from typing import Self

from pydantic import Field, model_validator

from rewards.verifiers.constraints.appearance import plain, shown
from rewards.verifiers.constraints.check import (
    Parameters,
    Phrase,
    Positive,
    Response,
    Whole,
    instruction,
)
from rewards.verifiers.constraints.text import bounded, fold, words
from rewards.verifiers.constraints.upstream import findall


class Prompt(Parameters):
    prompt_to_repeat: Phrase = Field(description="the text to repeat")


class Span(Prompt):
    n_start: Whole = Field(ge=0, description="index of the first character, from 0")
    n_end: Whole = Field(ge=1, description="index after the last character")

    @model_validator(mode="after")
    def _holds_something(self) -> Self:
        if not self.prompt_to_repeat[self.n_start : self.n_end].strip():
            raise ValueError(f"characters {self.n_start} to {self.n_end} of the text are blank")
        return self


class Copies(Prompt):
    N: Positive = Field(description="number of copies")


class Variations(Parameters):
    phrase: Phrase = Field(description="the phrase to vary")
    small_n: Positive = Field(description="exact number of variations")

    @model_validator(mode="after")
    def _has_a_centre(self) -> Self:
        if len(words(self.phrase)) < 3:
            raise ValueError(f"phrase {self.phrase!r} has no word in its centre")
        return self


def _plain(text: str) -> str:
    return text.replace("\r\n", "\n").strip().lower()


@instruction("copy:copy", Prompt, "copy the text and write nothing else: {prompt_to_repeat}")
def copy(response: Response, wanted: Prompt) -> bool:
    return _plain(response.text) == _plain(wanted.prompt_to_repeat)


copying_simple = instruction(
    "copy:copying_simple", Prompt, "repeat the request and write nothing else: {prompt_to_repeat}"
)(copy.repaired)


@instruction(
    "new:copy_span_idx", Span, "copy characters {n_start} to {n_end} of the text and nothing else"
)
def copy_span_idx(response: Response, wanted: Span) -> bool:
    span = wanted.prompt_to_repeat[wanted.n_start : wanted.n_end]
    return _plain(response.text) == _plain(span)


@instruction(
    "copy:copying_multiple",
    Copies,
    "repeat the request {N} times with ****** between and write nothing else",
)
def copying_multiple(response: Response, wanted: Copies) -> bool:
    copies = response.text.split("******")
    prompt = _plain(wanted.prompt_to_repeat)
    return len(copies) == wanted.N and all(_plain(copy) == prompt for copy in copies)


@instruction(
    "combination:repeat_prompt",
    Prompt,
    "first repeat the request word for word, then answer it: {prompt_to_repeat}",
)
def repeat_prompt(response: Response, wanted: Prompt) -> bool:
    """A bare repeat answers nothing, and the last word may not go on."""
    text, prompt = _plain(response.text), _plain(wanted.prompt_to_repeat)
    answer = text[len(prompt) :]
    goes_on = bounded(prompt[-1]) and re.match(r"\w|['’‐‑-]\w", shown(answer))
    return text.startswith(prompt) and not goes_on and bool(words(plain(answer)))


@repeat_prompt.upstream
def _(response: Response, wanted: Prompt) -> bool:
    return _plain(response.text).startswith(_plain(wanted.prompt_to_repeat))


@instruction(
    "combination:two_responses", Parameters, "give two different responses with ****** between"
)
def two_responses(response: Response, wanted: Parameters) -> bool:
    """Case, spaces and the final stop make no difference between them."""
    answers = _answers(re.split(r"(?<!\*)\*{6}(?!\*)", response.text))
    plain = [" ".join(fold(answer).split()).rstrip(".!? ") for answer in answers]
    return len(plain) == 2 and plain[0] != plain[1]


@two_responses.upstream
def _(response: Response, wanted: Parameters) -> bool:
    answers = _answers(response.text.split("******"))
    return len(answers) == 2 and answers[0] != answers[1]


def _answers(parts: list[str]) -> list[str]:
    """The stripped parts, without blank ones at the ends; none if one between is blank."""
    parts = [part.strip() for part in parts]
    return [] if not all(parts[1:-1]) else [part for part in parts if part]


@instruction(
    "copy:repeat_phrase",
    Variations,
    "repeat the phrase {phrase} exactly {small_n} times, each time with one inner word replaced",
)
def repeat_phrase(response: Response, wanted: Variations) -> bool:
    """What shares the ends and half of the phrase is a variation; each must differ by one word."""
    phrase = [fold(word) for word in words(wanted.phrase)]
    text = [fold(word) for word in response.words]
    changes = [
        change
        for start in range(len(text) - len(phrase) + 1)
        if (change := _change(phrase, text[start : start + len(phrase)])) is not None
    ]
    return changes == [1] * wanted.small_n


def _change(phrase: list[str], window: list[str]) -> int | None:
    """How many words differ; None where `window` is no variation of `phrase`."""
    if (window[0], window[-1]) != (phrase[0], phrase[-1]):
        return None
    change = sum(one != other for one, other in zip(phrase, window, strict=True))
    return change if change <= max(1, len(phrase) // 2) else None


@repeat_phrase.upstream
def _(response: Response, wanted: Variations) -> bool:
    phrase = wanted.phrase.split()
    spans = findall(rf"{phrase[0]} .*? {phrase[-1]}", response.text)
    return len(spans) == wanted.small_n and all(
        len(span.split()) == len(phrase)
        and sum(one != other for one, other in zip(span.split(), phrase, strict=True)) == 1
        for span in spans
    )
