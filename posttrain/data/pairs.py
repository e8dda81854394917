"""Preference pairs: one prompt and two assistant turns, of which the chosen one is better.

Always holds: both sides of a pair have the same prompt, and only what the assistant says in its
last turn is a target; a pair that cannot be trained on is never shortened or repaired: it is told,
and left out only where a bound on such pairs allows that.
"""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, Protocol, cast

from posttrain.data import splits
from posttrain.data.chat import ChatFormat, Rendered
from posttrain.data.conversation import Conversation

SIDES = ("chosen", "rejected")

Reason = Literal["too_long", "identical", "empty"]
_REASONS: Mapping[Reason, str] = {
    "too_long": "is longer than {longest} tokens",
    "identical": "has two sides that are the same",
    "empty": "has a side that says nothing",
}


@dataclass(frozen=True)
class Pair:
    """Both sides whole, prompt included; the masks count the completions alone."""

    chosen: Rendered
    rejected: Rendered

    @property
    def sides(self) -> tuple[Rendered, Rendered]:
        """Chosen and rejected."""
        return self.chosen, self.rejected


class Group(Protocol):
    """Completions that are trained on together; each is whole, prompt included."""

    @property
    def sides(self) -> tuple[Rendered, ...]:
        """The completions, in an order that means something to the objective."""


@dataclass(frozen=True)
class Groups:
    """What is usable of a source, the row (from 0) each came from, and how many were left out."""

    groups: Sequence[Group]
    rows: Sequence[int]
    dropped: Mapping[str, int]


def render_pair(chat: ChatFormat, row: Mapping[str, Any]) -> Pair:
    """Both sides of a row; ValueError names what cannot be rendered.

    A row is a conversation up to the turn in question, and that turn as `chosen` and `rejected`: a
    message of the assistant, or several with what its tools gave.
    """
    if lacking := [side for side in SIDES if not row.get(side)]:
        raise ValueError(f"a pair needs an assistant message as {' and as '.join(lacking)}")
    return Pair(*(completed(chat, row, row[side]) for side in SIDES))


def completed(chat: ChatFormat, row: Mapping[str, Any], completion: Any) -> Rendered:
    """The row's conversation with `completion` as its last turn, which alone is a target."""
    turn = [completion] if isinstance(completion, Mapping) else list(completion)
    if turn[0].get("role") != "assistant":
        raise ValueError(f"a completion is the assistant's, not {turn[0].get('role')!r}")
    before = {"tools": [], "deliberation": False, **row}
    whole = {**before, "messages": [*before["messages"], *turn]}
    prompt = chat.render(cast(Conversation, before), add_generation_prompt=True).ids
    rendered = chat.render(cast(Conversation, whole))
    if rendered.ids[: len(prompt)] != prompt:
        raise ValueError("the chat template renders the prompt otherwise once it is answered")
    return Rendered(rendered.ids, [0] * len(prompt) + rendered.mask[len(prompt) :])


def unusable(pair: Pair, longest: int) -> Reason | None:
    """Why `pair` cannot be trained on in `longest` tokens, if it cannot.

    A side says something if it has a target beside the mark that ends the turn.
    """
    if any(sum(side.mask) < 2 for side in pair.sides):
        return "empty"
    if pair.chosen.ids == pair.rejected.ids:
        return "identical"
    if any(len(side.ids) > longest for side in pair.sides):
        return "too_long"
    return None


def read_pairs(path: Path, chat: ChatFormat, longest: int, drop_at_most: float = 0.0) -> Groups:
    """The usable pairs of a split.

    ValueError if more than the share `drop_at_most` is not usable; it names the first such row.
    """
    found = [_rendered(chat, row, number) for number, row in enumerate(splits.contents(path), 1)]
    if not found:
        raise ValueError(f"{path.name} in {path.parent} has no pairs")
    reasons = [unusable(pair, longest) for pair in found]
    _bounded(reasons, longest, drop_at_most, f"{path.name} in {path.parent}")
    rows = [row for row, reason in enumerate(reasons) if reason is None]
    counts = Counter(reason for reason in reasons if reason)
    return Groups([found[row] for row in rows], rows, dict(sorted(counts.items())))


def _rendered(chat: ChatFormat, row: Mapping[str, Any], number: int) -> Pair:
    try:
        return render_pair(chat, row)
    except (ValueError, KeyError) as broken:
        raise ValueError(f"pair {number} cannot be rendered: {broken}") from broken


def _bounded(
    reasons: Sequence[Reason | None], longest: int, drop_at_most: float, where: str
) -> None:
    lost = sum(reason is not None for reason in reasons)
    if lost <= drop_at_most * len(reasons) and lost < len(reasons):
        return
    row, first = next((row, reason) for row, reason in enumerate(reasons, 1) if reason)
    told = _REASONS[first].format(longest=longest)
    raise ValueError(
        f"{lost} of {len(reasons)} pairs of {where} cannot be trained on, first row {row}: it "
        f"{told}; repair the data or raise drop_at_most (now {drop_at_most:.2%})"
    )


def tokens(documents: Iterable[Rendered]) -> list[int]:
    """The targets of each document: the length of its completion."""
    return [sum(document.mask) for document in documents]
