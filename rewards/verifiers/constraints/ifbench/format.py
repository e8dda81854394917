"""The `format:` instructions on marks and words: brackets, quotes, emoji, case, white space."""

import re
from collections.abc import Sequence

from rewards.verifiers.constraints import text as texts
from rewards.verifiers.constraints.appearance import GAPS, shown
from rewards.verifiers.constraints.check import Parameters, Phrase, Response, instruction
from rewards.verifiers.constraints.ifbench import public
from rewards.verifiers.constraints.ifbench.emoji import SINGLE, begins_with_emoji, ends_with_emoji
from rewards.verifiers.constraints.ifbench.lexicon import MINOR_WORDS
from rewards.verifiers.constraints.ifbench.nesting import bracket_depth, quote_depth
from rewards.verifiers.constraints.ifbench.spelling import straight
from rewards.verifiers.constraints.upstream import treebank


class Options(Parameters):
    """The permitted answers in one line, parted by "/", "or" or commas."""

    options: Phrase


@instruction(
    "format:parentheses", Parameters, "nest brackets ( [ {{ at least 5 levels deep, each closed"
)
def parentheses(response: Response, _: Parameters) -> bool:
    return bracket_depth(response.text) >= 5


@parentheses.upstream
def _parentheses(response: Response, _: Parameters) -> bool:
    """Five opened and one of them closed are enough."""
    open_: list[str] = []
    deepest = 0
    for mark in response.text:
        if mark in "([{":
            open_.append(mark)
            deepest = max(deepest, len(open_))
        elif mark in ")]}":
            if not open_ or open_[-1] + mark not in ("()", "[]", "{}"):
                open_, deepest = [], 0
                continue
            open_.pop()
            if deepest >= 5:
                return True
    return False


@instruction(
    "format:quotes",
    Parameters,
    "put a quotation in a quotation in a quotation, with double and single quote marks in turn",
)
def quotes(response: Response, _: Parameters) -> bool:
    return quote_depth(response.text) >= 3


@quotes.upstream
def _quotes(response: Response, _: Parameters) -> bool:
    """Apostrophes are quote marks."""
    open_: list[str] = []
    deepest = 0
    for mark in re.findall(r"[\"']", response.text):
        if open_ and open_[-1] == mark:
            open_.pop()
            if deepest - len(open_) >= 3:
                return True
        else:
            open_.append(mark)
            deepest = max(deepest, len(open_))
    return False


_LETTERS = re.compile(r"\W*a\b\W*b\b\W*c\b", re.IGNORECASE)
_LETTERS_PUBLIC = re.compile(r"\W*a\W*b\W*c", re.IGNORECASE)


@instruction("format:options", Options, "answer with one of {options} and nothing else")
def options(response: Response, asked: Options) -> bool:
    """Letters as in a), b), c) are to be given exactly, words whatever their case and marks."""
    given, permitted = straight(response.text).strip(), _options(straight(asked.options))
    if _LETTERS.match(asked.options):
        return given in permitted
    return texts.bare(given).lower() in {texts.bare(option).lower() for option in permitted} - {""}


def _options(line: str) -> list[str]:
    """A comma parts options unless "/" or the word "or" alone does."""
    if "/" in line:
        parts = line.split("/")
    else:
        parts = re.split(r",?\s+or\s+(?:else\s+)?", line, flags=re.IGNORECASE)
        if len(parts) == 1 or ("," in parts[0] and not any("," in part for part in parts[1:])):
            parts = [option for part in parts for option in part.split(",")]
    return [part.strip() for part in parts if part.strip()]


@options.upstream
def _options_upstream(response: Response, asked: Options) -> bool:
    """The letters "or" part options inside words too; a lettered answer stands bare."""
    separator = next((sign for sign in ("/", "or") if sign in asked.options), ",")
    permitted = [option.strip() for option in asked.options.split(separator)]
    if _LETTERS_PUBLIC.match(asked.options):
        return response.text in permitted
    given = public.stripped(response.text).lower()
    return given in (public.stripped(option).lower() for option in permitted)


@instruction("format:newline", Parameters, "write each word on a line of its own")
def newline(response: Response, _: Parameters) -> bool:
    """Marks that stand alone are no words."""
    counts = [
        sum(bool(texts.bare(token)) for token in shown(line).split()) for line in response.lines
    ]
    return any(counts) and max(counts) == 1


@newline.upstream
def _newline(response: Response, _: Parameters) -> bool:
    """Only the numbers of lines and of words are compared; neither passes."""
    text = public.without_punctuation(response.text).strip()
    return sum(line != "" for line in text.split("\n")) == len(text.split())


@instruction("format:emoji", Parameters, "end every sentence with an emoji")
def emoji(response: Response, _: Parameters) -> bool:
    """Before or after the full stop; headings are no sentences."""
    body = [line for line in response.lines if not line.lstrip().startswith("#")]
    sentences = texts.sentences("\n".join(body))
    following = [*sentences[1:], ""]
    return bool(sentences) and all(
        ends_with_emoji(sentence) or begins_with_emoji(after)
        for sentence, after in zip(sentences, following, strict=True)
    )


@emoji.upstream
def _emoji(response: Response, _: Parameters) -> bool:
    """One of the last two characters, or the first of the next sentence; no sentence passes."""
    found = [public.without_punctuation(it).strip() for it in public.sentences(response.text)]
    for sentence, after in zip(found, [*found[1:], ""], strict=False):
        if not sentence:
            return False
        if SINGLE.isdisjoint(sentence[-2:]) and after[:1] not in SINGLE:
            return False
    return True


@instruction(
    "format:title_case",
    Parameters,
    "write in title case: capitalise the first letter of each word",
)
def title_case(response: Response, _: Parameters) -> bool:
    """Articles, conjunctions and short prepositions are free, but not as first word of a line."""
    if not response.words or _is_shouted(response.words):
        return False
    return all(
        _is_titled(word) or (place > 0 and word in MINOR_WORDS)
        for line in response.lines
        for place, word in enumerate(texts.words(line))
    )


def _is_shouted(words: Sequence[str]) -> bool:
    """Whether most words are in capitals."""
    long = [word for word in words if len(word) > 1]
    return 2 * sum(map(str.isupper, long)) > len(long)


_ACRONYM = 5  # Letters that a word in capitals may have.


def _is_titled(word: str) -> bool:
    """Names such as iPhone are as they are."""
    if not word[0].islower():
        return not (word.isupper() and len(word) > _ACRONYM)
    return word[1:2].isupper() and not word[1:].isupper()


@title_case.upstream
def _title_case(response: Response, _: Parameters) -> bool:
    """Each token is a major word; no tokens pass."""
    words = [token for token in treebank(response.text) if token[0].isalpha()]
    return not any(
        word[0].islower() and (len(word) == 1 or word[1:].islower() or word[1:].isupper())
        for word in words
    )


@instruction("format:no_whitespace", Parameters, "use no white space at all")
def no_whitespace(response: Response, _: Parameters) -> bool:
    """Characters that look like white space count as such."""
    return not any(sign.isspace() or sign in GAPS for sign in response.text)


@no_whitespace.upstream
def _no_whitespace(response: Response, _: Parameters) -> bool:
    return not any(map(str.isspace, response.text))


_LABELS = ("My Answer:", "My Conclusion:", "Future Outlook:")


@instruction(
    "format:output_template",
    Parameters,
    "use exactly the template My Answer: [answer] My Conclusion: [conclusion] "
    "Future Outlook: [outlook]",
)
def output_template(response: Response, _: Parameters) -> bool:
    """Each label once, in order, with words after it and none before the first."""
    places = [response.text.find(label) for label in _LABELS]
    once = all(response.text.count(label) == 1 for label in _LABELS)
    if not once or places != sorted(places):
        return False
    before, *parts = re.split("|".join(_LABELS), response.text)
    return not texts.bare(before) and all(map(texts.bare, parts))


@output_template.upstream
def _output_template(response: Response, _: Parameters) -> bool:
    """Labels in any order."""
    return all(label in response.text for label in _LABELS)
