"""Mathematical equality by Math-Verify 0.9, with its own alarms off: a worker is the deadline.

The answers are those of the answer tool, else the last box, else what Math-Verify finds in the
text outside the deliberation. Of several answers the worst counts; of several gold ones any.
"""

from typing import Any

from rewards.schema import Item, Verdict, abstained, scored
from rewards.turn import read_turn
from rewards.verifiers import Canary
from rewards.verifiers.answer import NoAnswer, Tool, tool_answers
from rewards.verifiers.equality import Side, equal, read, read_prose
from rewards.verifiers.latex import boxed

_TOOL = Tool()


def verify(item: Item) -> Verdict:
    """Score 1 if every answer equals a gold one, else 0; abstains if a gold cannot be parsed."""
    golds: Any = [item.gold] if isinstance(item.gold, str) else item.gold
    if item.parameters:
        return abstained(item, "bad_item", "math takes no parameters")
    if not golds or not isinstance(golds, list) or not all(isinstance(g, str) for g in golds):
        return abstained(item, "bad_gold", "gold is a text or a list of texts, not empty")
    wanted = [read(gold) for gold in golds]
    if not all(side.parsed for side in wanted):
        return abstained(item, "bad_gold", f"gold cannot be parsed: {golds!r}"[:400])
    try:
        answers = _answers(item)
    except NoAnswer as fault:
        return scored(item, 0.0, fault.reason)
    right = all(any(equal(gold, answer) for gold in wanted) for answer in answers)
    return scored(item, 1.0) if right else scored(item, 0.0, "mismatch")


def _answers(item: Item) -> list[Side]:
    """What the candidate answered; NoAnswer if nothing that can be read."""
    if item.answers is not None:
        answers = [read(answer) for answer in item.answers]
    else:
        answers = _from_response(item.response or "")
    if not answers or not all(answer.parsed for answer in answers):
        raise NoAnswer("no_answer")
    return answers


def _from_response(response: str) -> list[Side]:
    turn = read_turn(response)
    if turn.malformed or any(call.name == _TOOL.name for call in turn.calls):
        return [read(answer) for answer in tool_answers(turn, _TOOL)]
    content = boxed(turn.text)
    return [read_prose(turn.text) if content is None else read(content)]


CANARIES = [
    Canary(item=Item(id="integer", verifier="math", answers=["4"], gold="4"), score=1.0),
    Canary(
        item=Item(id="symbolic", verifier="math", answers=[r"\frac{2}{4}x + 1"], gold="1+x/2"),
        score=1.0,
    ),
    Canary(
        item=Item(id="set", verifier="math", response=r"\boxed{(1,2)}", gold=r"1 < x \le 2"),
        score=0.0,
    ),
    Canary(
        item=Item(id="prose", verifier="math", response="It is $\\sqrt{8}$.", gold="2\\sqrt{2}"),
        score=1.0,
    ),
]
