"""Probes: held-out rows that tell how well a model uses its context, by task and length.

They follow RULER (Hsieh et al., arXiv 2404.06654): needles among hay, words common in a list, and
besides it the order of shuffled sections. All text is made up, so no source can have been trained
on. Answers are exact: all that is asked for and nothing else.

Always holds: prompt and room for the answer are together at most `length` tokens; coined words
and numbers that answers turn on are drawn anew for each row.
"""

import math
import random
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Literal, NamedTuple, get_args

from pydantic import BaseModel, ConfigDict, Field

from posttrain.data.longcontext.conversation import SYSTEM, Row
from posttrain.data.longcontext.fitting import largest
from posttrain.data.longcontext.haystack import sentence, strewn
from posttrain.data.longcontext.section_orders import shuffled
from posttrain.data.longcontext.sources import Target
from posttrain.data.longcontext.words import coined
from posttrain.data.tiny import ANSWER_TOOL
from posttrain.names import Name

if TYPE_CHECKING:
    from posttrain.data.chat import ChatFormat

TaskName = Literal[
    "needle", "multi_key", "multi_value", "common_words", "frequent_words", "section_order"
]

KEYS, VALUES, SECTIONS = 4, 4, 4
"""Needles with other keys, values of one key, and sections to order."""

FREQUENT = 3


class Commonness(NamedTuple):
    """How many words are common, how often each occurs, and how often each other word."""

    words: int
    common: int
    other: int


def commonness(length: int) -> Commonness:
    """RULER's figures from 4,096 tokens on; a short list has room for less."""
    return Commonness(10, 30, 3) if length >= 4096 else Commonness(3, 4, 1)


class Probes(BaseModel):
    """`rows` of each task at each of `lengths`, in tokens, of which `room` are the answer's.

    With `answer: tool` the model answers through the answer tool, else in its text.
    """

    model_config = ConfigDict(extra="forbid", frozen=True)

    tokenizer: Name
    rows: int = Field(ge=1)
    lengths: tuple[Target, ...] = Field(min_length=1)
    tasks: tuple[TaskName, ...] = Field(default=get_args(TaskName), min_length=1)
    room: int = Field(default=128, ge=1)
    answer: Literal["tool", "text"] = "tool"

    def inputs(self) -> dict[str, str]:
        """The tokenizer, for lengths."""
        return {"tokenizer": self.tokenizer}


class Probe(NamedTuple):
    """A prompt, and all that a right answer says, in any order."""

    prompt: str
    gold: Sequence[str]


def probes(chat: "ChatFormat", asked: Probes, seed: int) -> list[Row]:
    """The rows; ValueError names a task that a length is too short for."""
    return [
        _fitted(chat, asked, task, length, f"probe {seed} {task} {length} {number}")
        for length in asked.lengths
        for task in asked.tasks
        for number in range(asked.rows)
    ]


def _fitted(chat: "ChatFormat", asked: Probes, task: TaskName, length: int, seed: str) -> Row:
    """The row with as much text as the length has room for."""

    def row(size: int) -> Row:
        probe = TASKS[task](random.Random(seed), size, length)
        return _row(probe, asked) | {"task": task, "length": length}

    def tokens(size: int) -> int:
        prompt = chat.render(row(size), add_generation_prompt=True)  # type: ignore[arg-type]
        return len(prompt.ids)

    try:
        return row(largest(tokens, length - asked.room, least=LEAST[task]))
    except ValueError as fault:
        raise ValueError(
            f"{task} does not fit into {length} tokens, {asked.room} of them for the answer: "
            f"{fault}; leave the length out or lower `room`"
        ) from None


def _row(probe: Probe, asked: Probes) -> Row:
    tools = [ANSWER_TOOL] if asked.answer == "tool" else []
    several = " Separate several answers by commas." if len(probe.gold) > 1 else ""
    how = f"Answer through the tool {ANSWER_TOOL['name']}." if tools else f"Answer only.{several}"
    messages = [
        {"role": "system", "content": SYSTEM},
        {"role": "user", "content": f"{probe.prompt} {how}"},
    ]
    gold = {"all_of": list(probe.gold)}
    chat = {"messages": messages, "tools": tools, "deliberation": False}
    return chat | {"verifier": "answer", "gold": gold}


def _needles(draw: random.Random, sentences: int, keys: int, values: int) -> Probe:
    """The first of `keys` is asked for; each has `values`, told one by one among the hay."""
    names = coined(draw, keys)
    numbers = iter(draw.sample(range(100_000, 1_000_000), keys * values))
    told = [(name, str(next(numbers))) for name in names for _ in range(values)]
    draw.shuffle(told)
    needles = [f"A number of {name} is {number}." for name, number in told]
    text = strewn(needles, [sentence(draw) for _ in range(sentences)], draw)
    asked = "number is" if values == 1 else f"{values} numbers are"
    gold = [number for name, number in told if name == names[0]]
    return Probe(f"{text}\n\nWhich {asked} said to be of {names[0]}?", gold)


def _needle(draw: random.Random, sentences: int, length: int) -> Probe:
    return _needles(draw, sentences, 1, 1)


def _multi_key(draw: random.Random, sentences: int, length: int) -> Probe:
    return _needles(draw, sentences, KEYS, 1)


def _multi_value(draw: random.Random, sentences: int, length: int) -> Probe:
    return _needles(draw, sentences, 1, VALUES)


def _common_words(draw: random.Random, others: int, length: int) -> Probe:
    """A few words occur often in a list, all others seldom."""
    asked = commonness(length)
    found = coined(draw, asked.words + others)
    common = found[: asked.words]
    return _listed(draw, common * asked.common + found[asked.words :] * asked.other, common)


def _frequent_words(draw: random.Random, words: int, length: int) -> Probe:
    """About `words` in a list, the word of rank r with a share that falls as r squared."""
    counts = [int(words * 6 / (math.pi * rank) ** 2) for rank in range(1, words + 1)]
    found = coined(draw, sum(count > 0 for count in counts))
    listed = [word for word, count in zip(found, counts, strict=False) for _ in range(count)]
    return _listed(draw, listed, found[:FREQUENT])


def _listed(draw: random.Random, words: list[str], gold: Sequence[str]) -> Probe:
    draw.shuffle(words)
    return Probe(
        f"{' '.join(words)}\n\nWhich {len(gold)} words occur most often in this list?", gold
    )


def _section_order(draw: random.Random, days: int, length: int) -> Probe:
    """A diary whose sections, each of `days`, are shuffled; one guess in 24 is right."""
    diary = [f"Day {day}: {sentence(draw)}" for day in range(1, SECTIONS * days + 1)]
    sections = [" ".join(diary[start : start + days]) for start in range(0, len(diary), days)]
    order, shown = shuffled(sections, draw)
    asked = (
        "The sections of this diary are out of order. Give their numbers in the order of the days, "
        "joined with hyphens, such as 2-1-3."
    )
    return Probe(f"{shown}\n\n{asked}", ["-".join(map(str, order))])


TASKS: Mapping[TaskName, Callable[[random.Random, int, int], Probe]] = {
    "needle": _needle,
    "multi_key": _multi_key,
    "multi_value": _multi_value,
    "common_words": _common_words,
    "frequent_words": _frequent_words,
    "section_order": _section_order,
}
"""Each from randomness, an amount of text, and the length it is for."""

LEAST: Mapping[TaskName, int] = {
    "needle": 1, "multi_key": 1, "multi_value": 1, "common_words": 10, "frequent_words": 30,
    "section_order": 1,
}  # fmt: skip
"""The least amount of text with which a task has one right answer."""
