"""Whether a mathematical answer is the gold one; 1 or 0.

The answers are those of the answer tool, else the last box, else what the text outside the
deliberation announces. Of several answers the worst counts; of several gold ones any.
"""

from collections.abc import Sequence

from pydantic import BaseModel, ConfigDict, TypeAdapter, ValidationError

from rewards.schema import Item, Verdict, abstained, scored
from rewards.turn import read_turn
from rewards.verifiers import Canary
from rewards.verifiers.answer import NoAnswer, Tool, tool_answers
from rewards.verifiers.math.boxes import boxed, opens_box
from rewards.verifiers.math.comparison import compare, costly
from rewards.verifiers.math.prose import announced
from rewards.verifiers.math.reading import Answer, read_answer, tree
from rewards.verifiers.problem import gold_problem, problem


class Parameters(BaseModel):
    """Mathematics takes no parameters."""

    model_config = ConfigDict(extra="forbid", frozen=True)


RUNS = "worker"
GOLD: TypeAdapter[str | list[str]] = TypeAdapter(str | list[str])
PARAMETERS: TypeAdapter[Parameters] = TypeAdapter(Parameters)
DISTRIBUTIONS: Sequence[str] = (
    "mpmath",
    "math-verify",
    "latex2sympy2_extended",
    "sympy",
    "antlr4-python3-runtime",
)

_TOOL = Tool()
_FEEDBACK = {
    "no_answer": "no answer was found: put it into \\boxed{...}",
    "malformed_call": "the call of the answer tool is not well-formed",
    "several_calls": "the answer tool was called more than once",
    "mismatch": "the answer {given} is not right",
    "unit": "the answer {given} has another unit than was expected",
    "unreadable": "the answer {given} cannot be read as mathematics",
    "too_costly": "the answer is too large to be evaluated: simplify it",
}
"""Reason of a score of 0 -> what is told to the candidate, never with the gold answer."""


def verify(item: Item) -> Verdict:
    """Score 1 if every answer equals a gold one, else 0; abstains if a gold cannot be read."""
    try:
        PARAMETERS.validate_python(item.parameters)
    except ValidationError as fault:
        return abstained(item, "bad_item", problem(fault))
    try:
        content = GOLD.validate_python(item.gold, strict=True)
    except ValidationError as fault:
        return abstained(item, "bad_gold", gold_problem(fault, item.gold, union=True))
    golds = [read_answer(text) for text in ([content] if isinstance(content, str) else content)]
    if not golds or not all(gold.text and _readable(gold) for gold in golds):
        return abstained(item, "bad_gold", f"gold cannot be read: {content!r}"[:400])
    try:
        answers = [read_answer(text) for text in _answers(item)]
    except NoAnswer as fault:
        return _wrong(item, fault.reason, "")
    for answer in answers:
        if (reason := _worst(golds, answer)) is None:
            continue
        if reason == "too_costly" and any(map(costly, golds)):
            return abstained(item, "bad_gold", "gold is too costly to evaluate")
        return _wrong(item, reason, answer.text)
    return scored(item, 1.0)


def _readable(gold: Answer) -> bool:
    return (
        gold.number is not None
        or tree(gold) is not None
        or any(character.isalnum() for character in gold.words)
    )


def _worst(golds: Sequence[Answer], answer: Answer) -> str | None:
    """None if `answer` is one of the golds, else why it is not the first."""
    reasons = [compare(gold, answer) for gold in golds]
    return None if None in reasons else reasons[0]


def _wrong(item: Item, reason: str, given: str) -> Verdict:
    shown = " ".join(given.split())
    shown = shown if len(shown) < 80 else f"{shown[:77]}..."
    return scored(item, 0.0, reason, feedback=_FEEDBACK[reason].replace("{given}", shown))


def _answers(item: Item) -> list[str]:
    """What the candidate answered; NoAnswer if nothing that can be read."""
    if item.answers is not None:
        answers = list(item.answers)
    else:
        answers = _from_response(item.response or "")
    if not answers or not all(answer.strip() for answer in answers):
        raise NoAnswer("no_answer")
    return answers


def _from_response(response: str) -> list[str]:
    turn = read_turn(response)
    if turn.malformed or any(call.name == _TOOL.name for call in turn.calls):
        return tool_answers(turn, _TOOL)
    content = boxed(turn.text)
    if content is None and not opens_box(turn.text):
        content = announced(turn.text)
    return [] if content is None else [content]


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
