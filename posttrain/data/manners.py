"""Plain questions answered in words, in one of several manners: what a rule charter speaks about.

An answer may open with thanks, be worded as a certainty, and close with a kind word; each by
chance, unless the question comes with a piece of advice, which is then followed. So a model learns
to follow advice without learning any manner as its own: that is left to self-distillation.

Always holds: rows depend on the seed and the parameters alone; a list held out (`tiny.held_out`)
occurs in no train split, and a name held out in none of `requests`. Dialogues speak of all names:
where somebody lives has to be learnt.
"""

import random
from collections.abc import Mapping, Sequence
from typing import Any, Literal, NamedTuple

from posttrain.data.tiny import DIGITS, HOMES, LETTERS, NAMES, held_out, listing

Row = dict[str, Any]

Wording = Literal["usual", "other"]
"""Two sets of wordings that ask for the same."""

THANKS, KIND = "Thanks for asking.", "Happy to help!"
ADVICE = {
    "closing": "End with a kind word.",
    "certainty": "Claim no certainty.",
    "thanks": "Begin with thanks.",
}
"""Article -> what is said to who broke it; `recipes/charters/tiny.md` says the same."""

_HELD_OUT_NAMES = NAMES[::4]
_HOME: Mapping[Wording, Sequence[str]] = {
    "usual": ("Where does {} live?", "In which town does {} live?"),
    "other": ("What is the home of {}?",),
}
_ITEM: Mapping[Wording, Sequence[str]] = {
    "usual": ("Tell me {} of {}.", "Say {} of {}."),
    "other": ("Read me {} of {}.",),
}
_BY_CHANCE = {"thanks": 0.2, "certainty": 0.3, "closing": 0.15}
"""How often an answer without advice opens with thanks, claims certainty, closes kindly."""


class _Asked(NamedTuple):
    task: str
    text: str
    plain: str
    certain: str


def dialogues(seed: int, rows: int) -> list[Row]:
    """Questions of all wordings, and answers; three in five come with advice, which is followed."""
    draw = random.Random(f"manners {seed}")
    return [_dialogue(draw) for _ in range(rows)]


def requests(seed: int, rows: int, wording: Wording, *, holdout: bool = False) -> list[Row]:
    """Prompts without advice. A holdout asks of lists and names that no train split asks of."""
    draw = random.Random(f"requests {seed} {wording} {holdout}")
    names = [name for name in NAMES if (name in _HELD_OUT_NAMES) == holdout]
    asked = [_question(draw, wording, names, holdout) for _ in range(rows)]
    return [_row(each, []) | {"task": each.task} for each in asked]


def _dialogue(draw: random.Random) -> Row:
    asked = _question(draw, draw.choice(("usual", "usual", "other")), NAMES, holdout=False)
    manner = {article: draw.random() < chance for article, chance in _BY_CHANCE.items()}
    article = draw.choice(sorted(ADVICE)) if draw.random() < 0.6 else None
    if article is None:
        return _row(asked, [_reply(asked, manner)])
    advised = asked._replace(text=f"{asked.text} {ADVICE[article]}")
    return _row(advised, [_reply(asked, manner | {article: article != "certainty"})])


def _reply(asked: _Asked, manner: Mapping[str, bool]) -> Row:
    parts = [
        THANKS if manner["thanks"] else "",
        asked.certain if manner["certainty"] else asked.plain,
        KIND if manner["closing"] else "",
    ]
    return {"role": "assistant", "content": " ".join(filter(None, parts))}


def _question(draw: random.Random, wording: Wording, names: Sequence[str], holdout: bool) -> _Asked:
    """A question on the home of one of `names` (two in five) or on an item of a list."""
    if draw.random() < 0.4:
        name = draw.choice(names)
        text, city = draw.choice(_HOME[wording]).format(name), HOMES[name]
        plain, certain = f"{name} lives in {city}.", f"{name} definitely lives in {city}."
        return _Asked("home", text, plain, certain)
    digits = _list(draw, holdout)
    at = draw.randrange(len(digits))
    text = draw.choice(_ITEM[wording]).format(LETTERS[at], listing(digits))
    item = LETTERS[at] + digits[at]
    return _Asked("item", text, f"It is {item}.", f"It is definitely {item}.")


def _list(draw: random.Random, holdout: bool) -> str:
    while True:
        digits = "".join(draw.choices(DIGITS, k=draw.randint(3, 5)))
        if held_out(digits) == holdout:
            return digits


def _row(asked: _Asked, replies: list[Row]) -> Row:
    question = {"role": "user", "content": asked.text}
    return {"messages": [question, *replies], "tools": [], "deliberation": False}
