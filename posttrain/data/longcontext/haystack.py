"""Hay: plain sentences that say nothing, for needles to be put between."""

import random
from collections.abc import Sequence

WHO = (
    "The baker", "A neighbour", "My aunt", "The old captain", "A young clerk", "The night guard",
    "Our teacher", "The gardener", "A travelling singer", "The miller", "Her cousin", "A shepherd",
)  # fmt: skip
DOES = (
    "walked", "waited", "sat", "read a letter", "sang a song", "looked for a coin", "told a story",
    "slept", "drew a map", "ate an apple", "mended a shoe", "lost a glove",
)  # fmt: skip
WHERE = (
    "by the lake", "under a bridge", "in the market", "behind the mill", "at the station",
    "on a long road", "near the garden wall", "in a quiet room", "at the edge of town",
    "below the tower", "between two hills", "in front of the school",
)  # fmt: skip
WHEN = (
    "in the morning", "after the rain", "before supper", "late at night", "on a cold day",
    "when the bell rang", "for an hour", "until it was dark", "once more", "early in spring",
    "as the train left", "without a word",
)  # fmt: skip


def sentence(draw: random.Random) -> str:
    """One sentence of some twelve tokens, out of 20,736."""
    return " ".join(draw.choice(part) for part in (WHO, DOES, WHERE, WHEN)) + "."


def strewn(needles: Sequence[str], hay: Sequence[str], draw: random.Random) -> str:
    """`hay` with the needles in it, in their order, each anywhere between two sentences."""
    places = sorted(draw.randint(0, len(hay)) for _ in needles)
    found = list(hay)
    for place, needle in reversed(list(zip(places, needles, strict=True))):
        found.insert(place, needle)
    return " ".join(found)
