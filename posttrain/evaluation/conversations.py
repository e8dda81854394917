"""Long conversations: whether a model that goes on with its own words holds out to the end.

Always holds: what stands in the context is what the model said, not what it should have; a
conversation is lost at its first bad reply, and what comes after it is not asked for any more.
"""

import statistics
from collections.abc import Mapping, Sequence
from typing import Any

from transformers import PreTrainedModel

from posttrain.data.chat import ChatFormat
from posttrain.evaluation.degeneration import degenerate
from posttrain.evaluation.prompts import Keep, by_prompt, drop, summary
from posttrain.evaluation.replies import Reply, Row, replies
from posttrain.evaluation.suites import LongConversation

FAULTS = ("broken", "unfinished", "degenerate", "copied", "forgotten")
"""Why a conversation is lost; the first of them that applies is told."""


def fault(reply: Reply, before: Sequence[str], gold: str | None) -> str | None:
    """What is wrong with a reply after those `before` it; it must say `gold`, if that is given."""
    said = " ".join(reply.text.lower().split())
    if not reply.finished:
        return "unfinished"
    if reply.turn.error or not said:
        return "broken"
    if degenerate(reply.text):
        return "degenerate"
    if said in before:
        return "copied"
    return "forgotten" if gold is not None and gold.lower() not in said else None


def evaluate(
    model: PreTrainedModel, chat: ChatFormat, suite: LongConversation, rows: Sequence[Row], *,
    seed: int, keep: Keep = drop,
) -> dict[str, float]:  # fmt: skip
    """Rows have `turns`, what the user says, and `gold`, what the last reply must say.

    A share for each way to be lost (`unfinished`, `copied`, ...), and `turns`: the mean share of
    its turns that a conversation held. Groups are the numbers of turns.
    """
    talks = [_Talk(row) for row in rows]
    for depth in range(max(len(row["turns"]) for row in rows)):
        live = [talk for talk in talks if talk.lost is None and depth < len(talk.asked)]
        prompts = [talk.prompt(depth) for talk in live]
        if not live:
            break
        found = replies(model, chat, suite, prompts, seed=seed + depth)
        for talk, reply in zip(live, found, strict=True):
            talk.take(reply)
    kept = by_prompt([float(t.lost is None) for t in talks], rows, lambda row: [len(row["turns"])])
    keep(kept)
    mean = statistics.fmean
    return summary(kept) | {
        "turns": mean(talk.held / len(talk.asked) for talk in talks),
        **{name: mean(talk.lost == name for talk in talks) for name in FAULTS},
    }


class _Talk:
    """One conversation as it goes."""

    def __init__(self, row: Row) -> None:
        self._row = row
        self._messages: list[dict[str, Any]] = []
        self.asked: Sequence[str] = row["turns"]
        self.lost: str | None = None
        self.held = 0

    def prompt(self, depth: int) -> Mapping[str, Any]:
        """The conversation with the user's turn `depth` at its end."""
        self._messages.append({"role": "user", "content": self.asked[depth]})
        return {"messages": self._messages, "tools": [], "deliberation": self._row["deliberation"]}

    def take(self, reply: Reply) -> None:
        """Go on with a reply, or be lost by it."""
        said = [m["content"] for m in self._messages if m["role"] == "assistant"]
        before = [" ".join(text.lower().split()) for text in said]
        last = self.held + 1 == len(self.asked)
        self.lost = fault(reply, before, self._row["gold"] if last else None)
        if self.lost is None:
            self.held += 1
            self._messages.append({"role": "assistant", "content": reply.text})
