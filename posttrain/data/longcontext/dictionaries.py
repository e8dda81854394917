"""Looking up a key: a list of small dictionaries, and which value a key has in which of them.

No documents are needed. The list is part of the question, so only the answer is learned, a fixed
sentence. The seed's artificial needles (facts.md 4.4).
Always holds: the key that is asked for is in one dictionary only, and its value too; no pair that
is asked for in a holdout is asked for in training.
"""

import random
from collections.abc import Mapping
from typing import TYPE_CHECKING, Self

from pydantic import BaseModel, ConfigDict, Field, model_validator

from posttrain.data.longcontext.conversation import Row, conversation
from posttrain.data.longcontext.fitting import largest
from posttrain.data.longcontext.sources import Target
from posttrain.data.longcontext.tally import Tally
from posttrain.data.tiny import held_out
from posttrain.names import Name

if TYPE_CHECKING:
    from posttrain.data.chat import ChatFormat

GOLD_SIZE, SIZES, DIGITS = 3, (3, 4), (3, 4)
"""Entries of the dictionary asked for and of the others; digits of keys and values."""

FIRST, EARLY, EARLY_PART = 0.05, 0.03, 0.05
"""Shares of rows whose dictionary comes first, or lies within the first twentieth of the list."""

LISTED = "Below are dictionaries, numbered, whose keys and values are whole numbers.\n\n"
ASKED = (
    "\n\nOne of the dictionaries has the key {key}. Answer with this sentence, filled in:\n"
    "The key {key} has the value <value> in dictionary <number>."
)
ANSWER = "The key {key} has the value {value} in dictionary {number}."

Entries = dict[int, int]


class Lookups(BaseModel):
    """Rows whose lengths spread evenly from about `least` up to `target` tokens.

    A list has at least `dictionaries`; `least` is by default a quarter of `target`; `seed`, where
    given, takes the place of the recipe's.
    """

    model_config = ConfigDict(extra="forbid", frozen=True)

    tokenizer: Name
    rows: int = Field(ge=1)
    holdout: int = Field(default=0, ge=0)
    target: Target
    least: int | None = Field(default=None, ge=1)
    dictionaries: int = Field(default=85, ge=1)
    seed: int | None = None

    @model_validator(mode="after")
    def _least_is_less(self) -> Self:
        if self.shortest > self.target:
            raise ValueError(f"least {self.shortest} exceeds target {self.target}")
        return self

    @property
    def shortest(self) -> int:
        """Where lengths begin."""
        return self.target // 4 if self.least is None else self.least

    def inputs(self) -> dict[str, str]:
        """The tokenizer, for lengths."""
        return {"tokenizer": self.tokenizer}


def lookups(
    chat: "ChatFormat", asked: Lookups, rows: int, seed: int, *, holdout: bool = False
) -> tuple[list[Row], Mapping[str, float]]:
    """Rows and their figures; ValueError if `asked.dictionaries` exceed the target."""
    draw = random.Random(f"lookups {seed} {asked.target} {holdout}")
    tally = Tally(chat, asked.target)
    found = (tally.admit(_lookup(chat, asked, draw, holdout)) for _ in range(rows))
    return [row for row in found if row], tally.figures()


def gold_index(draw: random.Random, count: int) -> int:
    """Where among `count` dictionaries the one asked for stands: anywhere, first a bit oftener."""
    kind = draw.random()
    if kind < FIRST:
        return 0
    if kind < FIRST + EARLY:
        return draw.randrange(max(1, int(EARLY_PART * count)))
    return draw.randrange(count)


def _lookup(chat: "ChatFormat", asked: Lookups, draw: random.Random, holdout: bool) -> Row:
    """A row as long as a length drawn for it allows, with the fewest dictionaries at least."""
    listed = _List(draw, holdout)

    def length(count: int) -> int:
        return len(chat.render(listed.row(count)).ids)  # type: ignore[arg-type]

    least = length(asked.dictionaries)
    if least > asked.target:
        raise ValueError(
            f"{asked.dictionaries} dictionaries have {least} tokens, target is {asked.target}; "
            "lower `dictionaries` or raise `target`"
        )
    limit = max(least, draw.randint(asked.shortest, asked.target))
    return listed.row(largest(length, limit, least=asked.dictionaries))


class _List:
    """A list of dictionaries that grows; what it holds already stays."""

    def __init__(self, draw: random.Random, holdout: bool) -> None:
        self._draw = draw
        self._key, self._value = _pair(draw, holdout)
        self._gold = self._entries(GOLD_SIZE - 1) | {self._key: self._value}
        self._gold = dict(draw.sample(list(self._gold.items()), GOLD_SIZE))
        self._others: list[Entries] = []
        self._place = draw.getrandbits(64)

    def row(self, count: int) -> Row:
        """The row with `count` dictionaries."""
        while len(self._others) < count - 1:
            self._others.append(self._entries(self._draw.randint(*SIZES)))
        index = gold_index(random.Random(self._place), count)
        shown = [*self._others[:index], self._gold, *self._others[index : count - 1]]
        lines = (f"Dictionary {number}: {entries}" for number, entries in enumerate(shown, 1))
        asked = ASKED.format(key=self._key)
        answer = ANSWER.format(key=self._key, value=self._value, number=index + 1)
        turn = (LISTED + "\n".join(lines) + asked, answer)
        return conversation([turn]) | {"task": "lookups"}

    def _entries(self, count: int) -> Entries:
        """Entries that share neither key nor value with what is asked for."""
        found: Entries = {}
        while len(found) < count:
            key, value = _number(self._draw), _number(self._draw)
            if key != self._key and value != self._value:
                found[key] = value
        return found


def _pair(draw: random.Random, holdout: bool) -> tuple[int, int]:
    while True:
        key, value = _number(draw), _number(draw)
        if held_out(f"{key} {value}") == holdout:
            return key, value


def _number(draw: random.Random) -> int:
    digits = draw.randint(*DIGITS)
    return draw.randrange(10 ** (digits - 1), 10**digits)
