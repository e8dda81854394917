"""Function calling: whether a model makes the calls that a request needs, and no others.

Always holds: what counts is the calls parsed by token id; a turn that breaks the format makes none.
A request takes one step or more: the outputs of right calls are given back, and then the next are
expected. A wrong step ends it.
"""

import statistics
from collections.abc import Mapping, Sequence
from typing import Any

from transformers import PreTrainedModel

from posttrain.data.chat import ChatFormat
from posttrain.data.turn import AssistantTurn
from posttrain.evaluation.calls import fits, matches
from posttrain.evaluation.prompts import Keep, by_prompt, drop, summary
from posttrain.evaluation.replies import Reply, Row, replies
from posttrain.evaluation.suites import Functions

Step = Mapping[str, Any]
"""`calls` are expected and have `outputs`; or `any_of` tools is to be called, somehow rightly."""


def solves(turn: AssistantTurn, step: Step, tools: Sequence[Mapping[str, Any]]) -> bool:
    """Whether a turn does what `step` expects; where that is no call, it must say something."""
    if turn.error:
        return False
    if "any_of" in step:
        called = turn.tool_calls
        fit = all(call.name in step["any_of"] and fits(call, tools) for call in called)
        return bool(called) and fit
    if not step["calls"]:
        return not turn.tool_calls and bool((turn.content or "").strip())
    return matches(turn.tool_calls, step["calls"])


def evaluate(
    model: PreTrainedModel, chat: ChatFormat, suite: Functions, rows: Sequence[Row], *,
    seed: int, keep: Keep = drop,
) -> dict[str, float]:  # fmt: skip
    """Rows have `messages`, `tools`, `category` and `steps`; groups are the categories.

    `called` is the share of requests that were answered by a call, `broken` that of broken turns.
    """
    requests = [_Request(row) for row in rows]
    for depth in range(max(len(row["steps"]) for row in rows)):
        live = [each for each in requests if each.waits(depth)]
        if not live:
            break
        asked = [each.prompt() for each in live]
        found = replies(model, chat, suite, asked, seed=seed + depth, calls=True)
        for request, reply in zip(live, found, strict=True):
            request.take(reply, depth)
    kept = by_prompt([float(r.solved) for r in requests], rows, lambda row: [row["category"]])
    keep(kept)
    mean = statistics.fmean
    return summary(kept) | {
        "called": mean(request.called for request in requests),
        "broken": mean(request.broken for request in requests),
    }


class _Request:
    """One request, and how far it got."""

    def __init__(self, row: Row) -> None:
        self._row = row
        self._made: list[dict[str, Any]] = []
        self._done = 0
        self.called = self.broken = False

    @property
    def solved(self) -> bool:
        """Whether all steps were right."""
        return self._done == len(self._row["steps"])

    def waits(self, depth: int) -> bool:
        """Whether it goes on with step `depth`."""
        return self._done == depth < len(self._row["steps"])

    def prompt(self) -> Row:
        """The request, and the calls and outputs so far."""
        return {**self._row, "messages": [*self._row["messages"], *self._made]}

    def take(self, reply: Reply, depth: int) -> None:
        """Go on if the step is right."""
        step, turn = self._row["steps"][depth], reply.turn
        self.called |= bool(turn.tool_calls)
        self.broken |= turn.error is not None
        if not solves(turn, step, self._row["tools"]):
            return
        self._done += 1
        said = {"thoughts": turn.thoughts} if turn.thoughts is not None else {}
        calls = [{"name": call.name, "arguments": call.arguments} for call in turn.tool_calls]
        outputs = step.get("outputs", ())
        self._made.append(
            {"role": "assistant", **said, "tool_calls": calls, "tool_outputs": list(outputs)}
        )
