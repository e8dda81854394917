r"""Words, sentences, paragraphs and lists of a text, found by rule alone: no model, no download.

Linear in the text. A sentence always holds a word character, and ends at a stop, a blank line, a
list item, a heading or a divider; list and heading marks are not part of it. A stop does not end a
sentence inside a number or name (3.14, e.g., Dr. Who, J. Smith, a.com), nor inside a quotation that
the sentence goes on after ("Why?" he asked).
"""

import re
import unicodedata

from rewards.verifiers.constraints.appearance import latin

_COMBINING = "".join(
    re.escape(chr(code))
    for code in range(0x300, 0x1E100)
    if unicodedata.category(chr(code)).startswith("M")
)
_LETTER = rf"[\w{_COMBINING}]"
_RUN = re.compile(r"\w+")
_WORD = re.compile(rf"[^\W_]{_LETTER}*(?:['’\-\u2010\u2011]{_LETTER}+)*")
_BLANK_LINE = re.compile(r"\n[^\S\n]*\n\s*")
MARK = re.compile(r"\s*(?:#{1,6}\s+|>\s*|[-*+•]\s+|(?:\d{1,3}|[a-z])[.)]\s+|[A-Z]\)\s+)+")
"""What opens a Markdown heading, quotation or list item; matched at the start of a line."""

CLOSERS = "\"'”’»›)]}*_`」』"
OPENERS = "\"'“‘«‹([{*_`「『"
_STOPS = ".!?…؟۔।॥"
_STOP = re.compile(
    rf"(?<![{_STOPS}])(?P<stops>[{_STOPS}]++)(?P<closed>[{re.escape(CLOSERS)}]*+)"
    rf"(?=\s|$|(?P<glued>[{re.escape(OPENERS)}]*+[^\W\d_]))"
    r"|(?:[。！？｡]|．(?!\d))+[」』”’）]*"
)
_QUOTED = re.compile(r"[\"'”’»)]")
_CHUNK = 60
_CODE = re.compile(r"://|www\.|[@`]|\w(?:\(|[_=/\\]\w)")
_LAST_TOKEN = re.compile(r"[\w.'’\-]+$")
_NEXT_WORD = re.compile(rf"[\s{re.escape(OPENERS)}]*(\w*)")


def _listed(words: str) -> frozenset[str]:
    return frozenset(words.split())


# A stop after these belongs to them, whatever follows.
_ALWAYS = _listed("mr mrs ms mx dr prof messrs mme mlle e.g i.e viz vs cf approx")
# So it does after these where they are capitalised and a capital follows.
_TITLES = _listed("rev hon st gen col capt lt sgt maj cmdr gov sen rep pres mt ft")
# Before a number.
_NUMBERED = _listed("no nos fig figs vol vols p pp ch sec eq art")
# These end a sentence where a capital follows.
_CLOSING = _listed("etc a.m p.m b.c a.d")
# These end one where a word follows that often begins one.
_EITHER = _listed("inc ltd corp llc bros jr sr u.s u.k u.n e.u d.c ph.d m.d b.a m.a al")
# As those, but words when they are not capitalised.
_NAMES = _listed(
    "co est ave blvd rd dept ed jan feb mar apr jun jul aug sept sep oct nov dec mon tue wed thu "
    "fri sat sun"
)
STARTERS = _listed(
    "a after all an and as at before but every for he her his how however i if in it its many my "
    "no now on one our she since so some that the their then there these they this those to we "
    "what when where while who why with yes yet you your"
)
# These follow a dot in addresses and names of files, also as .Com and .PDF.
_SUFFIXES = _listed(
    "com org net edu gov io uk ch de fr eu ai dev js ts py md txt pdf html css json csv xml yaml "
    "jpg jpeg png gif svg mp3 mp4 zip gz exe doc docx xls xlsx ppt pptx rs cpp sql tex d"
)
# Scripts written without spaces, or whose particles attach to the word.
_UNSPACED = re.compile(
    r"[\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff"
    r"\u3040-\u30ff\u3400-\u9fff\uac00-\ud7af]"
)


def runs(text: str) -> list[str]:
    r"""Maximal runs of `\w`: the word count of the public implementations ("don't" is two)."""
    return _RUN.findall(text)


def words(text: str) -> list[str]:
    """Words as read, with inner apostrophes and hyphens: "don't", "well-known"."""
    return _WORD.findall(text)


def same_word(one: str, other: str) -> bool:
    """Whether two words are equal, whatever the case and the form of the apostrophe."""
    return fold(one) == fold(other)


def fold(text: str) -> str:
    """`text` for comparison: case and forms of letters and the apostrophe do not count."""
    return latin(text).casefold().replace("’", "'")


def bare(token: str) -> str:
    """`token` without punctuation and symbols round it; empty if it is nothing else."""
    start, end = 0, len(token)
    while start < end and not token[start].isalnum():
        start += 1
    while start < end and not token[end - 1].isalnum():
        end -= 1
    return token[start:end]


def starts_with(text: str, phrase: str) -> bool:
    """Whether the first words of `text` are those of `phrase`; never where it has none."""
    wanted = [fold(word) for word in words(phrase)]
    return bool(wanted) and [fold(word) for word in words(text)[: len(wanted)]] == wanted


def ends_with(text: str, phrase: str) -> bool:
    """Whether the last words of `text` are those of `phrase`; never where it has none."""
    wanted = [fold(word) for word in words(phrase)]
    return bool(wanted) and [fold(word) for word in words(text)[-len(wanted) :]] == wanted


def paragraphs(text: str) -> list[str]:
    """Stripped blocks between blank lines."""
    return [block.strip() for block in _BLANK_LINE.split(text) if block.strip()]


def unmarked(line: str) -> str:
    """`line` without the marks of a heading, quotation or list item."""
    mark = MARK.match(line)
    return line[mark.end() :] if mark else line


def count_word(text: str, phrase: str) -> int:
    """How often `phrase` stands in `text` as whole words, whatever the case."""
    return sum(not _marked(text, found.end()) for found in whole_word(phrase).finditer(text))


def _marked(text: str, at: int) -> bool:
    """Whether the letter before `at` goes on with a vowel sign or accent."""
    return text[at : at + 1] > "\u02ff" and unicodedata.category(text[at]).startswith("M")


def whole_word(phrase: str) -> re.Pattern[str]:
    """A pattern of the literal `phrase`, not inside a longer word; any white space is alike.

    ValueError for a blank phrase.
    """
    parts = phrase.split()
    if not parts:
        raise ValueError("the phrase is blank")
    literal = r"\s+".join(re.escape(part).replace("'", "['’]") for part in parts)
    before = r"(?<![^\W_])" if bounded(parts[0][0]) else ""
    after = r"(?![^\W_])" if bounded(parts[-1][-1]) else ""
    return re.compile(before + literal + after, re.IGNORECASE)


def bounded(edge: str) -> bool:
    """Whether a word that ends or begins with the letter `edge` ends or begins there."""
    return edge.isalnum() and not _UNSPACED.match(edge)


def sentences(text: str) -> list[str]:
    """The sentences of `text`, stripped, in order; each holds a word character."""
    found: list[str] = []
    for block in _blocks(text):
        found += split_at_stops(block)
    return found


def _blocks(text: str) -> list[str]:
    """Runs of lines that one sentence may span, without list and heading marks."""
    blocks: list[list[str]] = [[]]
    for line in text.split("\n"):
        mark = MARK.match(line)
        if mark or not _RUN.search(line):
            blocks.append([])
        blocks[-1].append(line[mark.end() :] if mark else line)
        if mark and "#" in mark.group():
            blocks.append([])
    return ["\n".join(block) for block in blocks]


def split_at_stops(block: str) -> list[str]:
    """The sentences of a text whose lines and list marks mean nothing."""
    found: list[str] = []
    start = 0
    for stop in _STOP.finditer(block):
        if _ends(block, start, stop):
            _add(found, block[start : stop.end()])
            start = stop.end()
    _add(found, block[start:])
    return found


def _add(found: list[str], piece: str) -> None:
    """A piece without a word belongs to the sentence before it, if there is one."""
    piece = piece.strip()
    if _RUN.search(piece):
        found.append(piece)
    elif piece and found:
        found[-1] += " " + piece


def _ends(block: str, start: int, stop: re.Match[str]) -> bool:
    """Whether the sentence begun at `start` ends at `stop`."""
    if stop.group("stops") is None:
        return True
    following = _NEXT_WORD.match(block, stop.end())
    word = following.group(1) if following else ""
    if stop.group("glued") is not None and not _parts(block, stop, word):
        return False
    if word[:1].islower() and _QUOTED.search(stop.group("closed")):
        return False
    if stop.group("stops") == ".":
        token = _LAST_TOKEN.search(block[max(start, stop.start() - 40) : stop.start()])
        return token is None or not _abbreviated(token.group(), word)
    if stop.group("stops") in ("...", "…"):
        return not word[:1].islower()
    return True


def _parts(block: str, stop: re.Match[str], word: str) -> bool:
    """Whether `stop`, which no space follows, parts sentences: "It is.We left", not "a.Com"."""
    begun = word.istitle() or (len(word) > 1 and word.isupper())
    if not begun or (len(word) == 1 and word not in "AI") or word.lower() in _SUFFIXES:
        return False
    before = block[max(0, stop.start() - _CHUNK) : stop.start()].split()[-1:]
    after = block[stop.start() : stop.end() + _CHUNK].split()[0]
    if not before or _CODE.search(before[0] + after):
        return False
    name = before[0].rstrip("\"'”’»*_")
    return len(name) > 1 and name[-2:].isalpha() and name[-1].islower()


def _abbreviated(token: str, word: str) -> bool:
    """Whether the stop between `token` and `word`, which may be empty, belongs to `token`."""
    name, capital = token.lower(), token[:1].isupper()
    if not word:
        return False
    if name in _NUMBERED and word.isdigit():
        return True
    if name in _TITLES and capital and word[0].isupper():
        return True
    if len(name) == 1 and capital and name != "i":
        return word[0].isupper()
    if name in _EITHER or (name in _NAMES and capital):
        return word.lower() not in STARTERS or word[0].islower()
    return name in _ALWAYS or (name in _CLOSING and not word[0].isupper())
