"""Sentences and bare tokens as the public implementation finds them, for `upstream` rules only.

Its sentences are NLTK's Punkt; the learned abbreviations are here a short list, so verdicts can
differ on texts full of rarer ones. Linear in the text.
"""

import re
import string

from rewards.verifiers.constraints import text as texts
from rewards.verifiers.constraints.ifbench.lexicon import word_set

# The last stop of a token that a mark or another token follows.
_STOP = re.compile(r"(?<!\S)(?P<token>\S*)[.?!](?=[)\";}\]*:@'({\[!?]|\s+\S)")
_CLOSERS = re.compile(r"[\"')\]}]+(?=\s|$)")
_NEXT = re.compile(r"[\s\"'(\[]*(\w*)")
_ABBREVIATIONS = word_set(
    "mr mrs ms dr prof st sr jr gen col lt sgt capt rev hon gov sen rep inc ltd co corp vs fig "
    "e.g u.s u.k a.m p.m ph.d jan feb mar apr aug sept oct nov dec ave cf"
)
MARKS = string.punctuation
_NO_PUNCTUATION = str.maketrans("", "", MARKS)


def without_punctuation(text: str) -> str:
    """`text` less the 32 ASCII punctuation characters: "don't" is "dont", "10-12" is "1012"."""
    return text.translate(_NO_PUNCTUATION)


def stripped(token: str) -> str:
    """`token` without ASCII punctuation and spaces round it."""
    return token.strip(MARKS + " ")


def sentences(text: str) -> list[str]:
    """Sentences as Punkt finds them: a quotation that ends in ? or ! ends its sentence."""
    found: list[str] = []
    start = 0
    for stop in _STOP.finditer(text):
        if not _ends(text, stop):
            continue
        closers = _CLOSERS.match(text, stop.end())
        end = closers.end() if closers else stop.end()
        found.append(text[start:end].strip())
        start = end
    found.append(text[start:].strip())
    return [sentence for sentence in found if sentence]


def _ends(text: str, stop: re.Match[str]) -> bool:
    """Whether a sentence ends at `stop`; an ellipsis ends none."""
    if text[stop.end() - 1] != ".":
        return True
    token = re.split(r"[\"'(\[{]", stop["token"])[-1].lower()
    following = _NEXT.match(text, stop.end())
    word = following[1] if following else ""
    if token.endswith("."):
        return False
    if token in _ABBREVIATIONS:
        return word[:1].isupper() and word.lower() in texts.STARTERS
    return len(token) != 1 or not token.isalpha() or token == "i"


def left_stripped(token: str) -> str:
    """`token` without ASCII punctuation and spaces before it."""
    return token.lstrip(MARKS + " ")


def words(text: str) -> list[str]:
    """What white space parts once ASCII punctuation is gone."""
    return without_punctuation(text).split()
