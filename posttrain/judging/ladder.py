"""Ladders of degradation: a good response, and on each rung one flaw more.

The number of flaws is the known rank that a judge's scores are held against (facts.md 5.3, where a
model adds the flaws). Pure: a function of the text, the rules and the draw.
"""

import random
from collections.abc import Callable, Sequence

from rewards.rules import Rule

Flaw = Callable[[str, random.Random], str]


def ladder(text: str, rungs: int, draw: random.Random, rules: Sequence[Rule] = ()) -> list[str]:
    """`text` and `rungs` worse ones, each with the flaws of the one before and one more.

    With `rules` the flaws are breaches of them, one rule after the other, and the text is first
    made to keep them all. ValueError if there are not as many flaws, or the text is empty.
    """
    if not text.strip():
        raise ValueError("a response that says nothing cannot be made worse")
    flaws = [_breach(rule, rules) for rule in rules] or list(FLAWS)
    if rungs > len(flaws):
        raise ValueError(f"there are {len(flaws)} flaws: ask for at most as many rungs")
    found = [_keeping(text, rules)]
    for flaw in flaws[:rungs]:
        found.append(flaw(found[-1], draw))
    return found


def _keeping(text: str, rules: Sequence[Rule]) -> str:
    # Ends come last: what is added for another rule would move them inside.
    for rule in sorted(rules, key=lambda rule: bool(rule.begins_with or rule.ends_with)):
        text = kept(text, rule)
    if not all(rule.keeps(text) for rule in rules):
        raise ValueError("no text was found that keeps all rules: they contradict one another")
    return text


def kept(text: str, rule: Rule) -> str:
    """`text` changed so far that it keeps `rule`."""
    for word in rule.avoids:
        text = _without(text, word)
    words = [each for each in rule.says[:1] if not _has(text, rule.says)]
    text = " ".join([text, *words]).strip()
    if rule.begins_with and not _first(rule.begins_with, text, str.startswith):
        text = f"{rule.begins_with[0]} {text}"
    if rule.ends_with and not _first(rule.ends_with, text, str.endswith):
        text = f"{text} {rule.ends_with[0]}"
    return text


def broken(text: str, rule: Rule, others: Sequence[Rule] = ()) -> str:
    """`text` changed so far that it breaks `rule`, and if possible none of `others` beside it."""
    if rule.avoids:
        return _with(text, rule.avoids[0], [each for each in others if each.keeps(text)])
    text = text.strip()
    while rule.ends_with and (end := _first(rule.ends_with, text, str.endswith)):
        text = text[: -len(end)].rstrip()
    while rule.begins_with and (start := _first(rule.begins_with, text, str.startswith)):
        text = text[len(start) :].lstrip()
    for each in rule.says:
        text = _without(text, each)
    return text or "-"


def _with(text: str, word: str, others: Sequence[Rule]) -> str:
    """`text` with `word` in it, where it breaks none of `others`, or else in front."""
    words = text.split()
    places = [" ".join([*words[:at], word, *words[at:]]) for at in range(len(words) + 1)]
    return next((each for each in places if all(o.keeps(each) for o in others)), places[0])


def _breach(rule: Rule, rules: Sequence[Rule]) -> Flaw:
    others = [each for each in rules if each is not rule]
    return lambda text, draw: broken(text, rule, others)


def misspelt(text: str, draw: random.Random) -> str:
    """Two letters change places in every third word, or in the first."""
    words = text.split()
    for index in range(0, len(words), 3):
        word = words[index]
        at = draw.randrange(max(len(word) - 1, 1))
        words[index] = word[:at] + word[at : at + 2][::-1] + word[at + 2 :]
    return " ".join(words)


def digressing(text: str, draw: random.Random) -> str:
    """A sentence that has nothing to do with the matter stands in it."""
    words = text.split()
    at = draw.randint(0, len(words))
    return " ".join([*words[:at], "My neighbour has a new bicycle.", *words[at:]])


def repeating(text: str, draw: random.Random) -> str:
    """All is said twice."""
    return f"{text} {text}"


def cut(text: str, draw: random.Random) -> str:
    """It ends in the middle."""
    words = text.split()
    return " ".join(words[: max(len(words) // 3, 1)])


def shouting(text: str, draw: random.Random) -> str:
    """It is all capitals and exclamation marks."""
    return text.upper().replace(".", "!!!")


def scrambled(text: str, draw: random.Random) -> str:
    """The words are in no order."""
    words = text.split()
    draw.shuffle(words)
    return " ".join(words)


FLAWS: Sequence[Flaw] = (misspelt, digressing, repeating, shouting, cut, scrambled)


def _without(text: str, word: str) -> str:
    at = text.casefold().find(word.casefold())
    while at >= 0 and len(text.casefold()) == len(text):
        text = " ".join((text[:at] + text[at + len(word) :]).split())
        at = text.casefold().find(word.casefold())
    return text


def _has(text: str, words: Sequence[str]) -> bool:
    return any(word.casefold() in text.casefold() for word in words)


def _first(words: Sequence[str], text: str, has: Callable[[str, str], bool]) -> str | None:
    """The first of `words` that `text` begins or ends with, as `has` says."""
    return next((word for word in words if has(text.casefold(), word.casefold())), None)
