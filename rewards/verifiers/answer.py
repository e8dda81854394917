"""Exact match of the answers given through the answer tool; binary, and cheap: it runs inline.

An answer counts only if the tool was called exactly once, outside the deliberation, well-formed:
one argument, a list of strings (a JSON integer stands for its digits). Rules: normalisers.py.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Literal, Self

from pydantic import BaseModel, ConfigDict, Field, TypeAdapter, ValidationError, model_validator

from rewards.calls import ANSWER_TOOL, ANSWERS, answers
from rewards.schema import Item, Verdict, abstained, scored
from rewards.turn import Turn, read_turn
from rewards.verifiers import Canary
from rewards.verifiers.normalisers import NORMALISERS, fold
from rewards.verifiers.problem import gold_problem, problem

LONGEST = 10_000
"""Most characters of one answer."""

Text = Literal[
    "default", "strict", "number", "text", "choice", "list", "structured", "squad", "numeric", "mcq"
]


class Tool(BaseModel):
    """The answer tool: its name and its one argument."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    name: str = ANSWER_TOOL
    arg: str = ANSWERS
    type: Literal["string[]"] = "string[]"


class Parameters(BaseModel):
    """What an item may set."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    normaliser: Text = "default"
    tool: Tool = Tool()


def _is_blank(text: str) -> bool:
    """Whether nothing of `text` is seen."""
    return not (text.strip() if text.isascii() else fold(text))


class Gold(BaseModel):
    """The right answers: one answer equal to one of `any_of`, or one for each of `all_of`."""

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True)

    any_of: list[str] = Field(default_factory=list)
    all_of: list[str] = Field(default_factory=list)

    @model_validator(mode="after")
    def _is_one_kind(self) -> Self:
        if bool(self.any_of) == bool(self.all_of):
            raise ValueError("give any_of or all_of, not empty")
        if any(map(_is_blank, self.any_of + self.all_of)):
            raise ValueError("a gold answer is blank")
        return self


RUNS = "inline"
GOLD: TypeAdapter[str | list[str] | Gold] = TypeAdapter(str | list[str] | Gold)
"""A text or a list of texts stands for `any_of`."""
PARAMETERS: TypeAdapter[Parameters] = TypeAdapter(Parameters)
_DEFAULTS = Parameters()
DISTRIBUTIONS: Sequence[str] = ()

FEEDBACK: Mapping[str, str] = {
    "no_answer": "no answer was given through the answer tool",
    "several_calls": "the answer tool was called more than once",
    "malformed_call": "the call of the answer tool is not well-formed",
    "too_long": "an answer is too long",
    "several_answers": "several answers were given where one was asked for",
    "mismatch": "the answer is not right",
}
"""Reason of a score of 0 -> what is told to the candidate."""


def verify(item: Item) -> Verdict:
    """Score 1 if the answers are the gold ones, else 0 with the reason; see `Gold`.

    Abstains for gold or parameters it does not understand.
    """
    try:
        parameters = PARAMETERS.validate_python(item.parameters) if item.parameters else _DEFAULTS
    except ValidationError as fault:
        return abstained(item, "bad_item", problem(fault, Parameters.model_fields))
    try:
        any_of, all_of = _gold(item.gold)
        given = _given(item, parameters.tool)
        reason = _reason(any_of, all_of, given, NORMALISERS[parameters.normaliser])
    except NoAnswer as fault:
        reason = fault.reason
    except ValidationError as fault:
        return abstained(item, "bad_gold", gold_problem(fault, item.gold, union=False))
    except ValueError as fault:
        return abstained(item, "bad_gold", str(fault))
    return scored(item, 1.0) if reason is None else wrong(item, reason)


def wrong(item: Item, reason: str) -> Verdict:
    """The verdict of 0 for `reason`."""
    return scored(item, 0.0, reason, feedback=FEEDBACK[reason])


class NoAnswer(Exception):
    """The turn gives no answer that counts; `reason` says why."""

    def __init__(self, reason: str) -> None:
        super().__init__(reason)
        self.reason = reason


def tool_answers(turn: Turn, tool: Tool) -> list[str]:
    """The answers of the one well-formed call of `tool`; NoAnswer otherwise."""
    if turn.malformed:
        raise NoAnswer("malformed_call")
    calls = [call for call in turn.calls if call.name == tool.name]
    if len(calls) != 1:
        raise NoAnswer("several_calls" if calls else "no_answer")
    found = answers(calls[0].arguments, tool.arg)
    if found is None:
        raise NoAnswer("malformed_call")
    return found


def _gold(content: Any) -> tuple[Sequence[str], Sequence[str]]:
    """`any_of` and `all_of`."""
    if isinstance(content, str):
        if not _is_blank(content):
            return (content,), ()  # The usual case need not pay for a model.
        content = [content]
    if isinstance(content, list):
        content = {"any_of": content}
    gold = Gold.model_validate(content)
    return gold.any_of, gold.all_of


def _given(item: Item, tool: Tool) -> Sequence[str]:
    if item.answers is not None:
        return item.answers
    return tool_answers(read_turn(item.response or ""), tool)


def _reason(
    any_of: Sequence[str],
    all_of: Sequence[str],
    given: Sequence[str],
    equal: Callable[[str, str], bool],
) -> str | None:
    """None if those given are the gold ones, else why they are not."""
    if not given:
        return "no_answer"
    if max(map(len, given)) > LONGEST:
        return "too_long"
    if all_of:
        return None if _covers(all_of, list(given), equal) else "mismatch"
    if len(given) > 1:
        return "several_answers"
    agree = [equal(text, given[0]) for text in any_of]  # All: each must fit the rule.
    return None if True in agree else "mismatch"


def _covers(gold: Sequence[str], given: list[str], equal: Callable[[str, str], bool]) -> bool:
    """Whether `given` is `gold` in some order; agreement is transitive, so greed finds it."""
    if len(gold) != len(given):
        return False
    for text in gold:
        found = next((i for i, answer in enumerate(given) if equal(text, answer)), None)
        if found is None:
            return False
        del given[found]
    return True


CANARIES = [
    Canary(item=Item(id="right", verifier="answer", answers=["4.0"], gold=["4"]), score=1.0),
    Canary(item=Item(id="wrong", verifier="answer", answers=["5"], gold=["4"]), score=0.0),
]
