"""Words: those of a document that are worth counting, and coined ones that mean nothing."""

import random
import re
from collections import Counter

_RUN = re.compile(r"[^\W\d_]+")
_SHORTEST = 4

_SAYS_LITTLE = """
    about above across after again against almost alone along already also although always among
    another anyone anything around away back became because become been before behind being below
    best better between beyond both came cannot come could does doing done down during each either
    else enough even ever every everyone everything first from further gave give given gives goes
    going good have having hence here hers herself himself however into itself just keep kept knew
    know known last least less like made make makes making many might mine more most much must
    myself near neither never next none nothing often once only onto other others otherwise ours
    ourselves over perhaps quite rather really said same says seem seemed seems shall should since
    some someone something soon still such take taken than that their theirs them themselves then
    there therefore these they thing things this those though through throughout thus till time
    together told took toward towards under unless until unto upon used using very want wanted well
    went were what whatever when where whether which while whole whom whose will with within
    without would year years your yours yourself yourselves
"""

STOP = frozenset(_SAYS_LITTLE.split())
"""English words that say nothing of a document."""

CONSONANTS, VOWELS = "bdfgjklmnprstvz", "aeiou"


def counted(text: str) -> Counter[str]:
    """How often each word of `text` occurs, in lower case and the order of first occurrence.

    A word is a run of letters, all of them a-z or A-Z and four or more, that is not in `STOP`.
    """
    runs = (run.lower() for run in _RUN.findall(text) if len(run) >= _SHORTEST and run.isascii())
    return Counter(run for run in runs if run not in STOP)


def coined(draw: random.Random, count: int) -> list[str]:
    """`count` different words of six letters, such as `tamiko`; at most 400,000."""
    if count > 400_000:
        raise ValueError(f"{count} coined words asked for; there are 421,875, so take fewer")
    found: dict[str, None] = {}
    while len(found) < count:
        found["".join(draw.choice(CONSONANTS) + draw.choice(VOWELS) for _ in range(3))] = None
    return list(found)
