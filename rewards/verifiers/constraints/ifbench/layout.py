"""The `format:` instructions on lines and blocks: lists, bullets, indents, sections, quotations."""

import re
import string
from collections.abc import Sequence
from itertools import pairwise

from rewards.verifiers.constraints import text as texts
from rewards.verifiers.constraints.check import Parameters, Phrase, Response, instruction
from rewards.verifiers.constraints.ifbench import public
from rewards.verifiers.constraints.ifbench.spelling import closing_mark, straight, unfenced


class Separator(Parameters):
    """What marks a list item."""

    sep: Phrase


@instruction("format:line_indent", Parameters, "indent each line more than the one before")
def line_indent(response: Response, _: Parameters) -> bool:
    """Blank lines and a code fence round the text do not count; one line is no stair."""
    lines = unfenced(response.text).expandtabs(4).split("\n")
    indents = _indents([line for line in lines if line.strip()])
    return len(indents) > 1 and _grow(indents)


@line_indent.upstream
def _line_indent(response: Response, _: Parameters) -> bool:
    """Of blank lines in a row, every second one counts; one line passes."""
    lines = response.text.split("\n")
    for line in lines:
        if not line.strip():
            lines.remove(line)
    return _grow(_indents(lines))


def _indents(lines: Sequence[str]) -> list[int]:
    return [len(line) - len(line.lstrip(" ")) for line in lines]


def _grow(numbers: Sequence[int]) -> bool:
    return all(before < after for before, after in pairwise(numbers))


_QUOTED = re.compile(r'"[^"]*"|«[^«»]*»')


@instruction(
    "format:quote_unquote",
    Parameters,
    "follow each quoted phrase by words outside quotation marks",
)
def quote_unquote(response: Response, _: Parameters) -> bool:
    """At least one phrase is quoted; a quotation mark itself in single marks is none."""
    text = straight(response.text).replace("'\"'", "")
    if text.count('"') % 2 or not _QUOTED.search(text):
        return False
    return all(map(texts.bare, _QUOTED.split(text)[1:]))


@quote_unquote.upstream
def _quote_unquote(response: Response, _: Parameters) -> bool:
    """No two straight marks in a row, and none at the end; no quotation passes."""
    text = "".join(response.text.replace("'\"'", "").split())
    stripped = text.strip(string.digits + public.MARKS.replace('"', ""))
    return '""' not in text and not stripped.endswith('"')


@instruction("format:list", Separator, "answer with a list whose items begin with {sep}")
def list_(response: Response, asked: Separator) -> bool:
    """At least two lines begin with it and go on with a word."""
    mark = asked.sep.strip()
    items = [line.strip() for line in response.lines if line.strip().startswith(mark)]
    return sum(_is_item(item.removeprefix(mark), mark) for item in items) > 1


def _is_item(rest: str, mark: str) -> bool:
    """Whether `rest` follows the mark as an item does: a longer mark is another one."""
    if mark[-1].isalnum() and rest[:1].isalnum():
        return False
    return not rest.startswith(mark[-1]) and bool(texts.bare(rest))


@list_.upstream
def _list(response: Response, asked: Separator) -> bool:
    """It stands anywhere, twice."""
    return response.text.count(asked.sep) >= 2


_RULE = r"(?:-[ \t]?){3,}|(?:\*[ \t]?){3,}|<hr ?/?>"
_HEADING = re.compile(
    rf"^[ \t]*(?:#{{1,6}}[ \t].*|<h[1-6]\b.*|\*\*[^*\n]+\*\*:?|{_RULE})[ \t\r]*$",
    re.MULTILINE | re.IGNORECASE,
)
_WRAPPER = re.compile(r"\s*(?:<(?:p|div|section|article|b|strong)\b[^>]*>\s*)*", re.IGNORECASE)
_ITALICS = re.compile(
    r"<(?P<tag>i|em)(?:\s[^>]*)?>(?P<thesis>(?:(?!</(?P=tag)).)*)</(?P=tag)\s*>",
    re.DOTALL | re.IGNORECASE,
)
_TAG = re.compile(r"<[^<>]*>")


@instruction(
    "format:thesis",
    Parameters,
    "begin each section with a thesis statement in HTML italics (<i> or <em>), and go on after it",
)
def thesis(response: Response, _: Parameters) -> bool:
    """A section is what a heading or divider begins; without them, see `_untitled`."""
    if not _HEADING.search(response.text):
        return _untitled(response.paragraphs)
    before, *sections = (part.strip() for part in _HEADING.split(response.text))
    if not before or _rest(before) is not None:
        sections = [before, *sections]
    found = [_rest(section) for section in sections if section]
    return bool(found) and all(found)


def _untitled(paragraphs: Sequence[str]) -> bool:
    """Each paragraph is a section; one that is a thesis alone heads those up to the next thesis."""
    headed = awaited = False
    for paragraph in paragraphs:
        rest = _rest(paragraph)
        if awaited and rest is not None:
            return False
        if rest is None and not headed:
            return False
        if rest is not None:
            headed = awaited = not rest
        else:
            awaited = False
    return bool(paragraphs) and not awaited


def _rest(section: str) -> str | None:
    """The words after the thesis that `section` begins with; None if it begins otherwise."""
    wrapped = _WRAPPER.match(section)
    italics = _ITALICS.match(section, wrapped.end() if wrapped else 0)
    if italics is None or not texts.bare(_TAG.sub("", italics["thesis"])):
        return None
    return texts.bare(_TAG.sub(" ", section[italics.end() :]))


@thesis.upstream
def _thesis(response: Response, _: Parameters) -> bool:
    """One stretch of italics, anywhere, with text after it."""
    text = response.text
    opened = text.find("<i>") if "<i>" in text else text.find("<em>")
    if opened < 0:
        return False
    text = text[opened:]
    closed = text.find("</i>") if "</i>" in text else text.find("</em>")
    return closed >= 0 and bool(text[3:closed].strip()) and bool(text[closed + 4 :].strip())


_BULLET = re.compile(r"\s*+\*(?:\s++|(?!\*)(?=[^\s*]+(?:\s[^*]*)?$))(?=.*\w)")
_SUB_BULLET = re.compile(r"\s*+-(?!-)\s*+(?=.*\w)")


@instruction(
    "format:sub-bullets", Parameters, "use * bullets, each with at least one - bullet below it"
)
def sub_bullets(response: Response, _: Parameters) -> bool:
    """Marks at the start of lines; bold text and hyphens are none, and one bullet is needed."""
    below: list[int] = []
    for line in response.lines:
        if _BULLET.match(line):
            below.append(0)
        elif below and _SUB_BULLET.match(line):
            below[-1] += 1
    return bool(below) and all(below)


@sub_bullets.upstream
def _sub_bullets(response: Response, _: Parameters) -> bool:
    """Any hyphen after any asterisk; no asterisk passes."""
    return all("-" in piece for piece in response.text.split("*")[1:])


@instruction(
    "format:no_bullets_bullets",
    Parameters,
    "write at least two sentences with full stops, then at least two * bullets, then nothing",
)
def no_bullets_bullets(response: Response, _: Parameters) -> bool:
    """Blank lines do not count; indented lines after a bullet belong to it."""
    lines = [line for line in response.lines if line.strip()]
    first = next((place for place, line in enumerate(lines) if _BULLET.match(line)), len(lines))
    sentences = texts.sentences("\n".join(lines[:first]))
    bullets = sum(map(bool, map(_BULLET.match, lines[first:])))
    closed = all(_BULLET.match(line) or line[0].isspace() for line in lines[first:])
    return (
        sum(closing_mark(sentence) == "." for sentence in sentences) > 1 and bullets > 1 and closed
    )


@no_bullets_bullets.upstream
def _no_bullets_bullets(response: Response, _: Parameters) -> bool:
    """Sentences of any kind; an empty line before or between the bullets is not foreseen."""
    sentences = bullets = 0
    prose = True
    for line in map(str.strip, response.lines):
        if line.startswith("*"):
            prose = False
            bullets += 1
            if sentences < 2:
                return False
        elif not prose:
            return False
        else:
            found = public.sentences(line)
            prose = bool(found)
            sentences += len(found)
    return bullets >= 2
