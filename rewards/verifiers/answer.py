"""Exact match of the answers given through the answer tool; binary.

An answer counts only if the tool was called exactly once, outside the deliberation, well-formed:
one argument, a list of strings (a JSON integer stands for its digits). Rules: normalisers.py.
"""

from collections.abc import Sequence
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from rewards.schema import Item, Verdict, abstained, scored
from rewards.turn import Turn, read_turn
from rewards.verifiers import Canary
from rewards.verifiers.normalisers import NORMALISERS


class Tool(BaseModel):
    """The answer tool: its name and its one argument."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    name: str = "display_answers"
    arg: str = "answers"
    type: Literal["string[]"] = "string[]"


class Parameters(BaseModel):
    """What an item may set."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    normaliser: Literal["default", "strict", "numeric", "squad", "mcq"] = "default"
    tool: Tool = Tool()


class Gold(BaseModel):
    """The right answers. A list on the wire is `any_of`: one answer, equal to one of them."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    any_of: list[str] = Field(default_factory=list)
    all_of: list[str] = Field(default_factory=list)


def verify(item: Item) -> Verdict:
    """Score 1 if the answers are the gold ones, else 0 with the reason; see `Gold`.

    Abstains for gold or parameters it does not understand.
    """
    try:
        parameters = Parameters.model_validate(item.parameters)
        gold = _gold(item.gold)
        answers = item.answers
        if answers is None:
            answers = tool_answers(read_turn(item.response or ""), parameters.tool)
        agree = _agree(gold, answers, NORMALISERS[parameters.normaliser])
    except ValidationError as fault:
        return abstained(item, "bad_item", str(fault.errors()[0]["msg"]))
    except NoAnswer as fault:
        return scored(item, 0.0, fault.reason)
    except ValueError as fault:
        return abstained(item, "bad_gold", str(fault))
    return scored(item, 1.0) if agree else scored(item, 0.0, "mismatch")


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
    arguments = calls[0].arguments
    if not isinstance(arguments, dict) or set(arguments) != {tool.arg}:
        raise NoAnswer("malformed_call")
    answers = arguments[tool.arg]
    if not isinstance(answers, list):
        raise NoAnswer("malformed_call")
    return [_as_text(answer) for answer in answers]


def _as_text(answer: Any) -> str:
    if isinstance(answer, str):
        return answer
    if isinstance(answer, int) and not isinstance(answer, bool):
        return str(answer)
    raise NoAnswer("malformed_call")


def _gold(content: Any) -> Gold:
    if isinstance(content, str):
        content = [content]
    gold = Gold.model_validate({"any_of": content} if isinstance(content, list) else content)
    if bool(gold.any_of) == bool(gold.all_of):
        raise ValueError("gold is empty" if not gold.any_of else "give any_of or all_of")
    if not all(text.strip() for text in gold.any_of + gold.all_of):
        raise ValueError("a gold answer is blank")
    return gold


def _agree(gold: Gold, answers: Sequence[str], equal: Any) -> bool:
    if not answers:
        raise NoAnswer("no_answer")
    if gold.any_of:
        matches = [equal(text, answer) for text in gold.any_of for answer in answers]
        return len(answers) == 1 and any(matches)
    return _covers(gold.all_of, list(answers), equal)


def _covers(gold: Sequence[str], answers: list[str], equal: Any) -> bool:
    """Whether `answers` is `gold` in some order; agreement is transitive, so greed finds it."""
    for text in gold:
        found = next((i for i, answer in enumerate(answers) if equal(text, answer)), None)
        if found is None:
            return False
        del answers[found]
    return not answers


CANARIES = [
    Canary(item=Item(id="right", verifier="answer", answers=["4.0"], gold=["4"]), score=1.0),
    Canary(item=Item(id="wrong", verifier="answer", answers=["5"], gold=["4"]), score=0.0),
]
