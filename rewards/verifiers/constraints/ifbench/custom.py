"""The `custom:` instructions: one question each, with one right form or content."""

import re
from collections.abc import Sequence
from datetime import date
from itertools import pairwise

from rewards.verifiers.constraints import text as texts
from rewards.verifiers.constraints.check import Parameters, Response, instruction
from rewards.verifiers.constraints.ifbench import public
from rewards.verifiers.constraints.ifbench.geography import (
    NORTHERN_CAPITALS,
    african_state,
    place_key,
)
from rewards.verifiers.constraints.ifbench.lexicon import word_set
from rewards.verifiers.constraints.ifbench.spelling import initial, unaccented

_ALPHABET = "abcdefghijklmnopqrstuvwxyz"
_MULTIPLES = ["14", "21", "28", "35", "42", "49"]


@instruction("custom:multiples", Parameters, "print the multiples of 7 from 10 to 50, no others")
def multiples(response: Response, _: Parameters) -> bool:
    """Words round them do not matter; other numbers, signs and fractions do."""
    return re.findall(r"-?\d+(?:\.\d+)?", response.text) == _MULTIPLES


@multiples.upstream
def _multiples(response: Response, _: Parameters) -> bool:
    return re.findall(r"\d+", response.text) == _MULTIPLES


_QUESTION = re.compile(r"^[^\w\n]*Question[^\S\n]*#?\d+[^\w\n]*", re.MULTILINE)
_OPTION = re.compile(r"[-*\s]*\W{0,3}(?P<letter>[A-Ea-e])(?:\*\*)?[.):]\W{0,2}\s*\S")
_ANSWER = re.compile(r"\W*(?:correct\s+)?answer\W*[A-E]\W*", re.IGNORECASE)


@instruction(
    "custom:mcq_count_length",
    Parameters,
    'write 4 questions labelled "Question" and a number, each longer than the last and with '
    "options A to E, and nothing else",
)
def mcq_count_length(response: Response, _: Parameters) -> bool:
    """Only the letter of the answer may follow the options."""
    before, *questions = _QUESTION.split(response.text)
    lengths = [_question_length(question) for question in questions]
    return not before.strip() and len(lengths) == 4 and lengths[0] > 0 and _grow(lengths)


def _question_length(question: str) -> int:
    """Characters before the options; 0 if they are not A to E and the end of the question."""
    lines = [line for line in question.splitlines() if line.strip() and not _ANSWER.fullmatch(line)]
    found = [_OPTION.match(line) for line in lines]
    letters = "".join(match["letter"].upper() for match in found if match)
    asked = lines[:-5]
    if letters != "ABCDE" or any(found[: len(asked)]):
        return 0
    return len(" ".join(line.strip() for line in asked))


def _grow(numbers: Sequence[int]) -> bool:
    return all(before < after for before, after in pairwise(numbers))


@mcq_count_length.upstream
def _mcq_count_length(response: Response, _: Parameters) -> bool:
    """Lines after the options do not matter."""
    if not response.text.startswith("Question"):
        return False
    parts = re.split(r"\n*(?:Question \d+[|.):;]?\s*)", response.text)
    questions = [part.strip() for part in parts if part.strip()]
    lengths = [_public_length(question) for question in questions]
    return len(lengths) == 4 and None not in lengths and _grow([it or 0 for it in lengths])


def _public_length(question: str) -> int | None:
    lines = [line.strip() for line in question.split("\n")]
    options = [bool(re.match(r"[A-Ea-e][|.)]\s*\w", line)) for line in lines]
    if sum(options) != 5:
        return None
    return len(" ".join(lines[: options.index(True)]).strip())


_LIST_MARK = re.compile(r"\W*(?:\d+\s*[.):\-]?)?\W*")
_FEWEST_STATES = 52


@instruction(
    "custom:reverse_newline",
    Parameters,
    "list the countries of Africa from Zimbabwe back to Algeria, each on a line of its own",
)
def reverse_newline(response: Response, _: Parameters) -> bool:
    """From Zimbabwe to the end each line is another state; counts differ, so 52 are enough."""
    lines = [_LIST_MARK.sub("", line, count=1) for line in response.lines if texts.bare(line)]
    keys = [place_key(line) for line in lines]
    first = next((place for place, key in enumerate(keys) if key == "zimbabwe"), len(keys))
    states = [african_state(line) for line in lines[first:]]
    distinct = len(set(states)) == len(states) >= _FEWEST_STATES and None not in states
    return distinct and all(before > after for before, after in pairwise(keys[first:]))


@reverse_newline.upstream
def _reverse_newline(response: Response, _: Parameters) -> bool:
    """Any lines will do, in descending order of code points."""
    lines = [line for line in map(public.stripped, response.lines) if line]
    first = next((place for place, line in enumerate(lines) if "Zimbabwe" in line), len(lines))
    plain = [unaccented(line) for line in lines[first:]]
    return len(plain) >= _FEWEST_STATES and plain == sorted(plain, reverse=True)


# Neighbours that only a sentence in its usual order has.
_FORWARD = re.compile(
    r"\b(?:(?:is|of|for|as) (?:the|a|an)|the (?:bald|national|united|us|american?)|united states"
    r"|national (?:animal|bird|symbol|emblem)|(?:symbol|animal|bird|emblem) of|bald eagle)\b"
)
_FORWARD_WORDS = word_set("the is of bald eagle national animal symbol bird united states america")


@instruction(
    "custom:word_reverse",
    Parameters,
    "say what animal is the national symbol of the US, with the words in reverse order",
)
def word_reverse(response: Response, _: Parameters) -> bool:
    words = " ".join(re.findall(r"\w+", response.folded))
    return "eagle bald" in words and not _FORWARD.search(words)


@word_reverse.upstream
def _word_reverse(response: Response, _: Parameters) -> bool:
    """Nothing but the words "eagle bald" is looked at."""
    return "bald eagle" in " ".join(reversed(public.words(response.folded)))


@instruction(
    "custom:character_reverse",
    Parameters,
    "say what animal is the national symbol of the US, with the letters in reverse order",
)
def character_reverse(response: Response, _: Parameters) -> bool:
    words = re.findall(r"[^\W\d_]+", response.folded)
    return "elgae dlab" in " ".join(words) and _FORWARD_WORDS.isdisjoint(words)


@character_reverse.upstream
def _character_reverse(response: Response, _: Parameters) -> bool:
    """Nothing but the words "elgae dlab" is looked at."""
    return "elgae dlab" in response.folded


@instruction(
    "custom:sentence_alphabet",
    Parameters,
    "write 26 sentences; start the first with an A word, the next with a B word, and so on to Z",
)
def sentence_alphabet(response: Response, _: Parameters) -> bool:
    return "".join(initial(sentence) for sentence in response.sentences) == _ALPHABET


@sentence_alphabet.upstream
def _sentence_alphabet(response: Response, _: Parameters) -> bool:
    """A quotation mark is a first letter."""
    found = public.sentences(response.text)
    return len(found) == 26 and "".join(it[0].lower() for it in found) == _ALPHABET


@instruction(
    "custom:european_capitals_sort",
    Parameters,
    "list the capitals of Europe north of 45 degrees from north to south, with commas between",
)
def european_capitals_sort(response: Response, _: Parameters) -> bool:
    """A full stop, "and" before the last, and Kyiv in its place are free."""
    given = [place_key(name).removeprefix("and ") for name in response.text.split(",")]
    found = ["luxembourg" if name == "luxembourg city" else name for name in given]
    if found[16:17] in (["kyiv"], ["kiev"]):
        del found[16]
    return found == NORTHERN_CAPITALS.lower().split()


@european_capitals_sort.upstream
def _european_capitals_sort(response: Response, _: Parameters) -> bool:
    given = [name.strip() for name in unaccented(response.text).split(",") if name.strip()]
    return given == NORTHERN_CAPITALS.split()


_DATE = re.compile(r"(?P<year>[0-9]{4})-(?P<month>[0-9]{2})-(?P<day>[0-9]{2})")
_LIFE_OF_NAPOLEON = range(1769, 1822)


@instruction(
    "custom:date_format_list",
    Parameters,
    "list dates of Napoleon's battles as YYYY-MM-DD, with commas between and nothing else",
)
def date_format_list(response: Response, _: Parameters) -> bool:
    """Each is another day of the calendar; a full stop may end the list."""
    dates = [it.strip() for it in response.text.strip().removesuffix(".").split(",")]
    return len(set(dates)) == len(dates) and all(_is_day(_DATE.fullmatch(it)) for it in dates)


def _is_day(found: re.Match[str] | None) -> bool:
    if found is None or int(found["year"]) not in _LIFE_OF_NAPOLEON:
        return False
    try:
        date(int(found["year"]), int(found["month"]), int(found["day"]))
    except ValueError:
        return False
    return True


_LONGEST = (0, 31, 29, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31)


@date_format_list.upstream
def _date_format_list(response: Response, _: Parameters) -> bool:
    """February always has 29 days; month and day 00 pass."""
    found = [re.fullmatch(r"(\d{4})-(\d\d)-(\d\d)", it.strip()) for it in response.text.split(",")]
    return all(match is not None and _is_public_day(*map(int, match.groups())) for match in found)


def _is_public_day(year: int, month: int, day: int) -> bool:
    limit = 99 if month == 0 else _LONGEST[month] if month <= 12 else -1
    return year in _LIFE_OF_NAPOLEON and day <= limit
