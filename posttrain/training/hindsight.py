"""What a user said next: responses with their prompt, and with the follow-up told beforehand.

Always holds: a response is the same tokens after either prompt; one that cannot be used is counted
by reason, and left out only where a bound on such responses allows that.
"""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any, Literal

from posttrain.data import splits
from posttrain.data.chat import ChatFormat, Rendered
from posttrain.data.pairs import Groups, completed
from posttrain.training.guards import FOLLOW_UP

Reason = Literal["unanswered", "blank", "unrenderable", "brief", "too_long"]
_REASONS: Mapping[Reason, str] = {
    "unanswered": "no user's message follows an answer",
    "blank": "a follow-up has no text",
    "unrenderable": "a conversation cannot be rendered, or a follow-up spells control tokens",
    "brief": "a response has no token that counts",
    "too_long": "a response with its prompt and follow-up is too long",
}


@dataclass(frozen=True)
class FollowedUp:
    """A response after its prompt, and after the prompt with the follow-up told."""

    plain: Rendered
    told: Rendered

    @property
    def sides(self) -> tuple[Rendered, ...]:
        """Both."""
        return self.plain, self.told


@dataclass(frozen=True)
class Usable:
    """Which responses are trained on: of at most `length` tokens with either prompt.

    The first `ignored` tokens of one do not count. Up to the share `drop_at_most` may be left out.
    """

    template: str
    length: int
    ignored: int
    drop_at_most: float


def read(path: Path, chat: ChatFormat, usable: Usable) -> Groups:
    """The usable responses of a split of conversations.

    ValueError if more than the share that may be is not usable; it names the first such row.
    """
    found, rows, lost = list[FollowedUp](), list[int](), list[tuple[int, Reason]]()
    for row, content in enumerate(splits.contents(path)):
        for each in _of(chat, content, usable):
            if isinstance(each, FollowedUp):
                found.append(each)
                rows.append(row)
            else:
                lost.append((row, each))
    where, total = f"{path.name} in {path.parent}", len(found) + len(lost)
    if not found or len(lost) > usable.drop_at_most * total:
        row, why = lost[0] if lost else (0, "unanswered")
        raise ValueError(
            f"{len(lost)} of {total} responses of {where} cannot be trained on, first row "
            f"{row + 1}: {_REASONS[why]}; repair the data or raise drop_at_most "
            f"(now {usable.drop_at_most:.2%})"
        )
    return Groups(found, rows, dict(sorted(Counter(reason for _, reason in lost).items())))


def _of(
    chat: ChatFormat, row: Mapping[str, Any], usable: Usable
) -> Iterator["FollowedUp | Reason"]:
    """Of each response of a conversation that a user's message follows, or why there is none."""
    messages = row["messages"]
    users = [place for place, each in enumerate(messages) if each.get("role") == "user"]
    turns = [pair for pair in pairwise(users) if pair[1] - pair[0] > 1]
    if not turns:
        yield "unanswered"
    for asked, followed in turns:
        context = {**row, "messages": messages[: asked + 1]}
        yield _followed(
            chat, context, messages[asked + 1 : followed], messages[followed], usable
        )  # fmt: skip


def _followed(
    chat: ChatFormat, context: Mapping[str, Any], response: Sequence[Any], after: Mapping[str, Any],
    usable: Usable,
) -> "FollowedUp | Reason":  # fmt: skip
    *before, last = context["messages"]
    texts = last.get("content"), after.get("content")
    if not all(isinstance(text, str) and text.strip() for text in texts):
        return "blank"
    said = usable.template.replace(FOLLOW_UP, str(after["content"]).strip())
    telling = {**context, "messages": [*before, {**last, "content": f"{last['content']}{said}"}]}
    try:
        found = FollowedUp(*(completed(chat, each, response) for each in (context, telling)))
    except (ValueError, KeyError):
        return "unrenderable"
    return _fitting(found, usable)


def _fitting(found: FollowedUp, usable: Usable) -> "FollowedUp | Reason":
    assert _targets(found.plain) == _targets(found.told), "one response, two prompts"
    if sum(found.plain.mask) <= usable.ignored:
        return "brief"
    return "too_long" if max(len(each.ids) for each in found.sides) > usable.length else found


def _targets(document: Rendered) -> list[int]:
    return [token for token, own in zip(document.ids, document.mask, strict=True) if own]
