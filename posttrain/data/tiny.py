"""Data that a model of half a million weights learns in minutes: adding up short lists of items.

A list such as "a3 b4 c1" is answered "08". Its running total, "a03 b07 c08", is easy to write
one step at a time and hard to skip: a model answers better when it thinks, and can learn to.

Always holds: rows depend on the seed and the parameters alone; lists held out (`held_out`) occur
in no train split of any generator here, and only they occur in a holdout split.
"""

import hashlib
import itertools
import operator
import random
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

Row = dict[str, Any]

DIGITS = "12345"
ITEMS = (4, 7)
"""Fewest and most items of a list that is asked about."""

LETTERS = "abcdefghijklmnopqrst"
ANSWER_TOOL: Row = {
    "name": "display_answers",
    "description": "Show the final answers.",
    "parameters": {
        "type": "object",
        "properties": {"answers": {"type": "array", "items": {"type": "string"}}},
        "required": ["answers"],
    },
}
ADD_UP, TOTAL, LARGEST = "Add up {}.", "Total of {}?", "Largest of {}?"
FILLER = (
    " The sky is clear today.", " We walk to the lake.", " It is a long road.",
    " The train is often late.", " Then the rain came down.",
)  # fmt: skip
CITIES = ("Bern", "Basel", "Chur", "Zug", "Sion", "Thun", "Biel", "Olten")
NAMES = ("Mia", "Noah", "Lena", "Paul", "Emma", "Luca", "Nina", "Jan", "Sara", "Tim", "Lea", "Ben")
HOMES = {name: CITIES[(5 * index + 3) % len(CITIES)] for index, name in enumerate(NAMES)}


class Question(NamedTuple):
    """A question with its answer and the thoughts that lead there, if any do."""

    task: str
    text: str
    answer: str
    thoughts: str | None = None


def held_out(digits: str) -> bool:
    """Whether a list or note with these digits is kept for measuring: one in eight, by hash."""
    return hashlib.sha256(digits.encode()).digest()[0] % 8 == 0


def listing(digits: str) -> str:
    """`"341"` -> `"a3 b4 c1"`."""
    return " ".join(letter + digit for letter, digit in zip(LETTERS, digits, strict=False))


def chain(digits: str, step: Callable[[int, int], int] = operator.add) -> str:
    """The running total, `"341"` -> `"a03 b07 c08"`, or what else `step` accumulates."""
    values = itertools.accumulate(map(int, digits), step)
    return " ".join(f"{letter}{value:02d}" for letter, value in zip(LETTERS, values, strict=False))


def corpus(seed: int, documents: int) -> list[Row]:
    """Documents in the order to read them: lists grow to full length over the first 40%."""
    draw = random.Random(f"corpus {seed}")
    return [_document(draw, min(1.0, index / (0.4 * documents))) for index in range(documents)]


def chains(seed: int, count: int) -> list[Row]:
    """Held-out documents for the corpus: running totals of the longest two list lengths."""
    draw = random.Random(f"chains {seed}")
    lists = _held_out_lists(draw, count, ITEMS[1] - 1, ITEMS[1])
    return [_chain_document(digits) for digits in lists]


def dialogues(seed: int, rows: int) -> list[Row]:
    """Single questions answered by tool or in words; two lists in five are thought through."""
    draw = random.Random(f"dialogues {seed}")
    return [_dialogue(draw) for _ in range(rows)]


def long_documents(seed: int, rows: int, tokens: Sequence[int]) -> list[Row]:
    """Conversations of about `tokens` tokens: six questions on one long note.

    Several questions a document, because one leaves too few targets to learn retrieval from.
    """
    draw = random.Random(f"long documents {seed}")
    return [_long_document(draw, draw.choice(tokens)) for _ in range(rows)]


def prompts(seed: int, rows: int, thinking: float, *, holdout: bool = False) -> list[Row]:
    """Sums (85%) and maxima to answer exactly; a holdout has no list twice per task."""
    draw = random.Random(f"prompts {seed} {holdout}")
    sums = round(0.85 * rows)
    questions = [_sum(digits) for digits in _lists(draw, sums, holdout)]
    questions += [_largest(digits) for digits in _lists(draw, rows - sums, holdout)]
    draw.shuffle(questions)
    return [_prompt(question, draw.random() < thinking) for question in questions]


def pairs(seed: int, rows: int, *, holdout: bool = False) -> list[Row]:
    """Pairs that teach to think where deliberation is enabled, and to answer at once elsewhere.

    Both sides of a pair give the right answer; a third of the questions are for maxima.
    """
    draw = random.Random(f"pairs {seed} {holdout}")
    found = []
    for index, digits in enumerate(_lists(draw, rows, holdout)):
        question, deliberation = (_sum, _sum, _largest)[index % 3](digits), draw.random() < 0.5
        sides = [_reply(question, question.thoughts), _reply(question, None)]
        chosen, rejected = sides if deliberation else reversed(sides)
        row = _conversation([_user(question.text)], deliberation)
        found.append(row | {"chosen": chosen, "rejected": rejected, "task": question.task})
    return found


def formulas(seed: int, rows: int, thinking: float, *, holdout: bool = False) -> list[Row]:
    """Sums whose gold is a LaTeX expression: only a verifier that computes can tell."""
    draw = random.Random(f"formulas {seed} {holdout}")
    found = []
    for digits in _lists(draw, rows, holdout):
        question = _sum(digits, TOTAL)
        row = _prompt(question, draw.random() < thinking)
        gold = _expression(draw, int(question.answer))
        found.append(row | {"verifier": "math", "gold": [gold], "task": "formula"})
    return found


def needles(seed: int, rows: int, lengths: Sequence[int]) -> list[Row]:
    """Held-out questions on one of four items in a note, evenly over `lengths` in tokens."""
    draw = random.Random(f"needles {seed}")
    found = []
    for index in range(rows):
        length = lengths[index % len(lengths)]
        note, values = _note(draw, 4, _sentences(length, items=4, questions=1), holdout=True)
        question = _recall(draw.choice(sorted(values)), values, note)
        found.append(_prompt(question, deliberation=False) | {"length": length})
    return found


def _lists(draw: random.Random, count: int, holdout: bool) -> list[str]:
    if holdout:
        return _held_out_lists(draw, count, *ITEMS)
    return [_train_list(draw, *ITEMS) for _ in range(count)]


def _train_list(draw: random.Random, fewest: int, most: int) -> str:
    while True:
        digits = _some_list(draw, fewest, most)
        if not held_out(digits):
            return digits


def _held_out_lists(draw: random.Random, count: int, fewest: int, most: int) -> list[str]:
    """`count` different held-out lists; ValueError when that many are not to be found."""
    found: dict[str, None] = {}
    for _ in range(100 * count):
        if len(found) == count:
            break
        digits = _some_list(draw, fewest, most)
        if held_out(digits):
            found[digits] = None
    if len(found) < count:
        raise ValueError(f"found {len(found)} of {count} held-out lists; ask for fewer")
    return list(found)


def _some_list(draw: random.Random, fewest: int, most: int) -> str:
    return "".join(draw.choices(DIGITS, k=draw.randint(fewest, most)))


def _document(draw: random.Random, level: float) -> Row:
    kind = draw.random()
    most = 2 + round((ITEMS[1] - 2) * level)
    if kind < 0.66:
        return _chain_document(_train_list(draw, 2, most))
    if kind < 0.72:
        digits = _train_list(draw, 2, most)
        return {"prompt": f"{listing(digits)} max:", "continuation": f" {chain(digits, max)}"}
    if kind < 0.94:
        note, values = _note(draw, draw.randint(1, 1 + round(4 * level)), draw.choice((0, 0, 0, 1)))
        keys = draw.sample(sorted(values), len(values))
        return {"prompt": note, "continuation": "".join(f" {key}{values[key]}" for key in keys)}
    name = draw.choice(sorted(HOMES))
    return {"prompt": f"Where does {name} live?", "continuation": f" {HOMES[name]}."}


def _chain_document(digits: str) -> Row:
    return {"prompt": f"{listing(digits)} sum:", "continuation": f" {chain(digits)}"}


def _dialogue(draw: random.Random) -> Row:
    kind = draw.random()
    if kind < 0.62:
        wording = TOTAL if draw.random() < 0.2 else ADD_UP
        return _answered(_sum(_train_list(draw, *ITEMS), wording), draw.random())
    if kind < 0.72:
        return _answered(_largest(_train_list(draw, *ITEMS)), draw.random())
    if kind < 0.90:
        note, values = _note(draw, draw.randint(2, 5), draw.randint(0, 3))
        return _answered(_recall(draw.choice(sorted(values)), values, note), draw.random())
    name = draw.choice(sorted(HOMES))
    reply = {"role": "assistant", "content": f"{name} lives in {HOMES[name]}."}
    return _conversation([_user(f"Where does {name} live?"), reply], draw.random() < 0.5)


def _answered(question: Question, chance: float) -> Row:
    """A dialogue. Deliberation is enabled in nine of ten; four of those nine do think.

    Fewer than half: a model that takes the likeliest token then answers directly, and what
    reinforcement learning changes is to be seen.
    """
    thoughts = question.thoughts if chance < 0.4 else None
    return _conversation([_user(question.text), _reply(question, thoughts)], chance < 0.9)


def _long_document(draw: random.Random, tokens: int) -> Row:
    note, values = _note(draw, 6, _sentences(tokens, items=6, questions=6))
    keys = draw.sample(sorted(values), len(values))
    messages = []
    for index, key in enumerate(keys):
        question = _recall(key, values, note if index == 0 else None)
        messages += [_user(question.text), _reply(question, None)]
    return _conversation(messages, deliberation=False)


def _sum(digits: str, wording: str = ADD_UP) -> Question:
    total = f"{sum(map(int, digits)):02d}"
    return Question("sum", wording.format(listing(digits)), total, chain(digits))


def _largest(digits: str) -> Question:
    return Question("max", LARGEST.format(listing(digits)), f"0{max(digits)}", chain(digits, max))


def _recall(key: str, values: Mapping[str, str], note: str | None) -> Question:
    asked = f"What is {key}?"
    return Question("recall", f"{note} {asked}" if note else asked, values[key])


def _note(
    draw: random.Random, items: int, sentences: int, holdout: bool = False
) -> tuple[str, dict[str, str]]:
    """A note of `items` items strewn among `sentences` of filler, and its answers by key."""
    while True:
        values = {key: draw.choice("0123456789") for key in draw.sample(LETTERS, items)}
        parts = [f" {key}{digit}" for key, digit in values.items()]
        if held_out("".join(parts)) == holdout:
            break
    for _ in range(sentences):
        parts.insert(draw.randint(0, len(parts)), draw.choice(FILLER))
    return f"Notes:{''.join(parts)}.", {key: f"0{digit}" for key, digit in values.items()}


def _sentences(tokens: int, *, items: int, questions: int) -> int:
    """Filler sentences, of six tokens each, that fill a conversation up to `tokens`.

    The blocks before the first turn take 9 tokens, a note its items and 3, a turn 14.
    """
    return max(0, tokens - 12 - items - 14 * questions) // 6


def _expression(draw: random.Random, value: int) -> str:
    factor = draw.randint(2, 4)
    forms = (f"{value}.0", rf"\frac{{{value * factor}}}{{{factor}}}", f"{value + factor}-{factor}")
    return draw.choice(forms)


def _user(text: str) -> Row:
    return {"role": "user", "content": text}


def _reply(question: Question, thoughts: str | None) -> Row:
    call = {"name": ANSWER_TOOL["name"], "arguments": {"answers": [question.answer]}}
    return {"role": "assistant", "thoughts": thoughts, "tool_calls": [call]}


def _conversation(messages: list[Row], deliberation: bool) -> Row:
    return {"messages": messages, "tools": [ANSWER_TOOL], "deliberation": deliberation}


def _prompt(question: Question, deliberation: bool) -> Row:
    return _conversation([_user(question.text)], deliberation) | {
        "verifier": "answer",
        "gold": [question.answer],
        "task": question.task,
    }
