"""Planted contamination: clean rows with a benchmark's prompt put in, to measure recall on.

Always holds: plants depend on the seed, the prompts and the clean rows alone; each is planted in a
row that was found clean, and keeps that row's id.
"""

import random
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

from posttrain.data.checks.rows import Content, Place, Row, texts


class Plant(NamedTuple):
    """A planted row and the clean row it was made from, placed side by side."""

    kind: str
    host: Row
    row: Row


class _Kind(NamedTuple):
    """Which speaker gets the prompt, how it is changed, and the shortest prompt in tokens."""

    speaker: str
    change: Callable[[random.Random, str, str], str]
    least: int


def _alone(draw: random.Random, prompt: str, around: str) -> str:
    return prompt


def _wrapped(draw: random.Random, prompt: str, around: str) -> str:
    return f"{around}\n\n{prompt}\n\n{around}"


def _recased(draw: random.Random, prompt: str, around: str) -> str:
    return "\n  ".join(prompt.upper().split())


def _bare(draw: random.Random, prompt: str, around: str) -> str:
    """Without punctuation, in quotes, with soft hyphens."""
    words = "".join(" " if sign in ".,;:!?" else sign for sign in prompt).split()
    hyphened = [f"{word[:2]}\N{SOFT HYPHEN}{word[2:]}" for word in words]
    return f"“{' '.join(hyphened)}”"


def _cut(draw: random.Random, prompt: str, around: str) -> str:
    """A quarter is missing, at the start or at the end."""
    quarter = len(prompt) // 4
    return prompt[quarter:] if draw.random() < 0.5 else prompt[: len(prompt) - quarter]


def _edited(draw: random.Random, prompt: str, around: str) -> str:
    """One word in twelve is another."""
    words = prompt.split()
    for index in draw.sample(range(len(words)), max(1, len(words) // 12)):
        words[index] = draw.choice(around.split() or ["other"])
    return " ".join(words)


_KINDS: Mapping[str, _Kind] = {
    "alone": _Kind("user", _alone, 1),
    "wrapped": _Kind("user", _wrapped, 5),
    "answer": _Kind("assistant", _wrapped, 5),
    "recased": _Kind("user", _recased, 5),
    "bare": _Kind("user", _bare, 5),
    "cut": _Kind("user", _cut, 20),
    "edited": _Kind("user", _edited, 20),
}

PROMISED = ("alone", "wrapped", "answer", "recased", "bare", "cut")
"""Kinds that the rule must find; how much rewording it sees through is only reported."""


class Hosts:
    """A uniform sample of the rows offered, drawn as they stream by."""

    def __init__(self, seed: int, most: int) -> None:
        self._draw = random.Random(f"hosts {seed}")
        self._most = most
        self._offered = 0
        self.rows: list[Row] = []

    def offer(self, row: Row) -> None:
        """Take `row` into the sample, maybe in place of another."""
        self._offered += 1
        if len(self.rows) < self._most:
            self.rows.append(row)
        elif (at := self._draw.randrange(self._offered)) < self._most:
            self.rows[at] = row


def plant(
    seed: int, prompts: Sequence[tuple[str, int]], hosts: Sequence[Row], count: int
) -> list[Plant]:
    """`count` plants, evenly over the kinds that a prompt (text, tokens) is long enough for.

    Without a clean row to plant in, each stands in an empty one.
    """
    draw = random.Random(f"plants {seed}")
    pools = {
        kind: [text for text, tokens in prompts if tokens >= rule.least]
        for kind, rule in _KINDS.items()
    }
    kinds = [kind for kind, pool in pools.items() if pool]
    planted: list[Plant] = []
    for number in range(count):
        kind = kinds[number % len(kinds)]
        host = draw.choice(hosts).content if hosts else {"messages": []}
        prompt, rule = draw.choice(pools[kind]), _KINDS[kind]
        text = rule.change(draw, prompt, _said(host, rule.speaker))
        rows = (host, _with(host, rule.speaker, text))
        planted.append(Plant(kind, *(_row(c, 2 * number + n, kind) for n, c in enumerate(rows, 1))))
    return planted


def _said(content: Content, speaker: str) -> str:
    """The last text of `speaker`; in a document, where nobody speaks, the last of all."""
    spoken = "messages" in content
    found = [text.text for text in texts(content) if not spoken or text.speaker == speaker]
    return found[-1] if found else ""


def _row(content: Content, number: int, kind: str) -> Row:
    return Row(Place("planted", kind, number), content)


def _with(content: Content, speaker: str, text: str) -> dict[str, Any]:
    """`content` with `text` in place of the last one of `speaker`, or as a new one."""
    if "messages" not in content:
        key = next((found.field for found in texts(content) if found.field in content), "text")
        return {**content, key: text}
    messages = list(content["messages"])
    spoken = [n for n, message in enumerate(messages) if message.get("role") == speaker]
    if spoken:
        messages[spoken[-1]] = {**messages[spoken[-1]], "content": text}
    else:
        messages.append({"role": speaker, "content": text})
    return {**content, "messages": messages}
