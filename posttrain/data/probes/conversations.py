"""Long-conversation probes: what a user says, turn by turn; the first is asked back at the end."""

import random
from typing import Any

from pydantic import BaseModel, ConfigDict, Field

from posttrain.data.longcontext.words import coined

Row = dict[str, Any]

_TALK = (
    "Tell me something about {}.", "Which do you find more useful, {} or {}?",
    "Give me two words that go with {}.", "Make up a sentence with {} and {}.",
    "What could a child ask about {}?", "Say the same in fewer words, but about {}.",
    "What do {} and {} have in common?", "Where would one look for {}?",
)  # fmt: skip
_THINGS = (
    "bread", "rivers", "clocks", "bridges", "winter", "bicycles", "letters", "apples", "glass",
    "trains", "gardens", "music", "salt", "maps", "wool", "lamps", "storms", "chess", "paper",
)  # fmt: skip


class Conversations(BaseModel):
    """`holdout` conversations, evenly over the lengths in `turns`, the user's turns."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    holdout: int = Field(ge=1)
    turns: tuple[int, ...] = Field(min_length=1)


def rows(seed: int, asked: Conversations) -> list[Row]:
    """The rows, the lengths in turn; ValueError if one has no room for first and last turn."""
    if min(asked.turns) < 2:
        raise ValueError("a conversation has 2 turns or more: something is said and asked back")
    lengths = [asked.turns[number % len(asked.turns)] for number in range(asked.holdout)]
    return [
        _row(random.Random(f"conversation {seed} {turns} {number}"), turns)
        for number, turns in enumerate(lengths)
    ]


def _row(draw: random.Random, turns: int) -> Row:
    [word] = coined(draw, 1)
    gold = f"{word}-{draw.randint(100, 999)}"
    between = [_talk(draw) for _ in range(turns - 2)]
    first = f"My locker has the code {gold}. Remember it; I will ask for it later."
    asked = [first, *between, "What is the code of my locker?"]
    return {"turns": asked, "gold": gold, "deliberation": False}


def _talk(draw: random.Random) -> str:
    return draw.choice(_TALK).format(*draw.sample(_THINGS, 2))
