"""Marks and layout: lists, highlights, sections, titles, brackets (`detectable_format:*`,
`detectable_content:*`).

Repaired: a mark counts where Markdown would read it as one, and where it holds something.
"""

import json
import re
from typing import Any

from pydantic import Field

from rewards.verifiers.constraints.appearance import plain
from rewards.verifiers.constraints.check import Count, Parameters, Phrase, Response, instruction
from rewards.verifiers.constraints.text import sentences, words
from rewards.verifiers.constraints.upstream import findall, regex_sentences


class Placeholders(Parameters):
    num_placeholders: Count = Field(description="fewest placeholders")


class Postscript(Parameters):
    postscript_marker: Phrase = Field(description="P.S., P.P.S or another opening")


class Bullets(Parameters):
    num_bullets: Count = Field(description="exact number of list items")


class Highlights(Parameters):
    num_highlights: Count = Field(description="fewest highlighted spans")


class Sections(Parameters):
    section_spliter: Phrase = Field(description="the word before each section's number")
    num_sections: Count = Field(description="fewest sections")


_PLACEHOLDER = re.compile(r"(?!(?<=[-*+] )\[[xX]\])\[([^\[\]\n]*)\](?!\()")


def _says(text: str) -> bool:
    """Whether a reader finds a word or a blank to fill in."""
    return re.search(r"\w", plain(text)) is not None


@instruction(
    "detectable_content:number_placeholders",
    Placeholders,
    "write at least {num_placeholders} placeholders such as [address]",
)
def number_placeholders(response: Response, wanted: Placeholders) -> bool:
    """Neither empty brackets, nor check boxes, nor links are placeholders."""
    found = _PLACEHOLDER.findall(response.text)
    return sum(map(_says, found)) >= wanted.num_placeholders


@number_placeholders.upstream
def _(response: Response, wanted: Placeholders) -> bool:
    return len(re.findall(r"\[.*?\]", response.text)) >= wanted.num_placeholders


_ANY_POSTSCRIPT = re.compile(r"[*_\s]*(?:p\.?\s?)+s\b", re.IGNORECASE)


@instruction(
    "detectable_content:postscript",
    Postscript,
    "end with a postscript that starts with {postscript_marker}",
)
def postscript(response: Response, wanted: Postscript) -> bool:
    """It opens a line or sentence, says something, and only more postscripts follow it."""
    name = wanted.postscript_marker.strip()
    marker = r"\s?".join(map(re.escape, re.findall(r"\w+\W?|\W", name)))
    marker += r"(?![^\W_])" if name[-1].isalnum() else ""
    opening = rf"(?:^(?:[^\w\n]|_)*|[.!?…][\"”’*_)]*\s+[*_]*){marker}(?P<said>.*)"
    pattern = re.compile(opening, re.IGNORECASE | re.MULTILINE | re.DOTALL)
    blocks = response.paragraphs
    while len(blocks) > 1 and _ANY_POSTSCRIPT.match(blocks[-1]) and not pattern.search(blocks[-1]):
        blocks = blocks[:-1]
    found = pattern.search(blocks[-1])
    return found is not None and _says(found.group("said"))


@postscript.upstream
def _(response: Response, wanted: Postscript) -> bool:
    marker = wanted.postscript_marker.strip()
    rules = {"P.P.S": r"p\.\s?p\.\s?s", "P.S.": r"p\.\s?s\."}
    return bool(findall(rules.get(marker, marker.lower()), response.folded))


_BULLET = re.compile(r"\s*[*-]\s(?=.*[^\s*_-])")


@instruction(
    "detectable_format:number_bullet_lists",
    Bullets,
    "write exactly {num_bullets} bullet points such as * this",
)
def number_bullet_lists(response: Response, wanted: Bullets) -> bool:
    """Dividers, bold lines and negative numbers are no bullet points."""
    return sum(bool(_BULLET.match(line)) for line in response.lines) == wanted.num_bullets


@number_bullet_lists.upstream
def _(response: Response, wanted: Bullets) -> bool:
    stars = re.findall(r"^\s*\*[^*].*$", response.text, re.MULTILINE)
    dashes = re.findall(r"^\s*-.*$", response.text, re.MULTILINE)
    return len(stars) + len(dashes) == wanted.num_bullets


_ANSWERS = ("My answer is yes.", "My answer is no.", "My answer is maybe.")


@instruction(
    "detectable_format:constrained_response",
    Parameters,
    "answer with one of: My answer is yes. / My answer is no. / My answer is maybe.",
)
def constrained_response(response: Response, wanted: Parameters) -> bool:
    return sum(answer in response.text for answer in _ANSWERS) == 1


@constrained_response.upstream
def _(response: Response, wanted: Parameters) -> bool:
    return any(answer in response.text for answer in _ANSWERS)


_HIGHLIGHT = re.compile(r"(?<!\*)(\*{1,3})(?![\s*])([^*\n]*)(?<!\s)\1(?!\*)")


@instruction(
    "detectable_format:number_highlighted_sections",
    Highlights,
    "highlight at least {num_highlights} sections as *this*",
)
def number_highlighted_sections(response: Response, wanted: Highlights) -> bool:
    """A bold span is one highlight; stars with white space or no word inside are none."""
    found = sum(bool(words(plain(span))) for _, span in _HIGHLIGHT.findall(response.text))
    return found >= wanted.num_highlights


@number_highlighted_sections.upstream
def _(response: Response, wanted: Highlights) -> bool:
    single = re.findall(r"\*([^\n*]*)\*", response.text)
    double = re.findall(r"\*\*([^\n*]*)\*\*", response.text)
    return sum(bool(span.strip()) for span in single + double) >= wanted.num_highlights


@instruction(
    "detectable_format:multiple_sections",
    Sections,
    "write {num_sections} sections, each opened by {section_spliter} and its number",
)
def multiple_sections(response: Response, wanted: Sections) -> bool:
    """Only what opens a line is a section, and a number counts once; case does not matter."""
    name = re.escape(wanted.section_spliter.strip())
    heading = re.compile(rf"^[^\w\n]*{name}\s?(\d+)", re.MULTILINE | re.IGNORECASE)
    numbers = {int(number[:9]) for number in heading.findall(response.text)}
    return len(numbers) >= wanted.num_sections


@multiple_sections.upstream
def _(response: Response, wanted: Sections) -> bool:
    rule = rf"\s?{wanted.section_spliter.strip()}\s?\d+\s?"
    return len(findall(rule, response.text)) >= wanted.num_sections


def _is_json(text: str, constant: Any = None) -> bool:
    try:
        json.loads(text, parse_constant=constant)
    except (ValueError, RecursionError):
        return False
    return True


def _refuse(constant: str) -> None:
    raise ValueError(f"{constant} is not JSON")


@instruction("detectable_format:json_format", Parameters, "write nothing but JSON")
def json_format(response: Response, wanted: Parameters) -> bool:
    """A fence round it is allowed; NaN and Infinity are not JSON."""
    return _is_json(_unfenced(response.text), _refuse)


@json_format.upstream
def _(response: Response, wanted: Parameters) -> bool:
    return _is_json(_unfenced(response.text))


def _unfenced(text: str) -> str:
    text = text.strip()
    for opening in ("```json", "```Json", "```JSON", "```"):
        text = text.removeprefix(opening)
    return text.removesuffix("```").strip()


_TITLE = re.compile(r"<<((?:(?!<<)[^\n])*?)>>")


@instruction("detectable_format:title", Parameters, "write a title such as <<poem of joy>>")
def title(response: Response, wanted: Parameters) -> bool:
    return any(map(_says, _TITLE.findall(response.text)))


@title.upstream
def _(response: Response, wanted: Parameters) -> bool:
    found = re.findall(r"<<[^\n]+>>", response.text)
    return any(text.lstrip("<").rstrip(">").strip() for text in found)


_JOINT = re.compile(r"(?<=[.!?…])([\"”’)*_]*)-(?=\S)")
_GLUED = re.compile(r"[a-z][.!?]+[\"”’)*_]*[A-Z]")


@instruction(
    "detectable_format:sentence_hyphens",
    Parameters,
    "join all sentences by hyphens without spaces, as in One.-Two.",
)
def sentence_hyphens(response: Response, wanted: Parameters) -> bool:
    """Each piece between joints is one sentence; hyphens inside words do no harm.

    A single sentence has nothing to join, so a hyphen before a capital there joins nothing.
    """
    text = response.text.strip()
    joints = [joint.end() for joint in _JOINT.finditer(text)]
    if not joints:
        return len(response.sentences) == 1 and not re.search(r"-\s*[A-Z]", text)
    starts, ends = [0, *joints], [*(joint - 1 for joint in joints), len(text)]
    return all(_is_one_sentence(text[start:end]) for start, end in zip(starts, ends, strict=True))


def _is_one_sentence(piece: str) -> bool:
    return piece == piece.strip() and len(sentences(piece)) == 1 and not _GLUED.search(piece)


@sentence_hyphens.upstream
def _(response: Response, wanted: Parameters) -> bool:
    found = regex_sentences(response.text.replace("-", " "))
    pieces = response.text.split("-")
    return all(
        piece == piece.strip() and piece == sentence
        for piece, sentence in zip(pieces, found, strict=False)
    )


@instruction(
    "detectable_format:square_brackets", Parameters, "put each word into [square] [brackets]"
)
def square_brackets(response: Response, wanted: Parameters) -> bool:
    return bool(response.runs) and all(
        re.fullmatch(r"(?:\[[^\[\]]+\])+", token) for token in response.tokens
    )


@square_brackets.upstream
def _(response: Response, wanted: Parameters) -> bool:
    return all(token[0] == "[" and token[-1] == "]" for token in response.tokens)


_BIGRAMS = re.compile(r"<<[^\s<>]+ [^\s<>]+>>(?:\s+<<[^\s<>]+ [^\s<>]+>>)*(?:\s+<<[^\s<>]+>>)?")


@instruction(
    "detectable_format:bigram_wrapping",
    Parameters,
    "wrap each pair of words as <<I am>> <<at home>>",
)
def bigram_wrapping(response: Response, wanted: Parameters) -> bool:
    """An odd last word is wrapped alone."""
    text = response.text.strip()
    return re.fullmatch(r"<<[^\s<>]+>>", text) is not None or bool(_BIGRAMS.fullmatch(text))


@bigram_wrapping.upstream
def _(response: Response, wanted: Parameters) -> bool:
    pairs = zip(response.tokens[::2], response.tokens[1::2], strict=False)
    return all(one.startswith("<<") and two.endswith(">>") for one, two in pairs)
