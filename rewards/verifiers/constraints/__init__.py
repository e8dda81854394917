"""Verifiable constraints on a response: the instructions of IFEval, IF-RLVR and IFBench.

Each instruction has a `repaired` rule, the documented meaning and the default for rewards, and an
`upstream` rule, the public implementation's, for figures comparable with papers. A blank response
follows nothing. What stands behind a tool call in the same text is the model's own unless the item
says otherwise: else text dressed as a tool's output would hide from every rule. An unknown id, or
parameters that do not fit, make the verifier abstain.
"""

from collections.abc import Sequence
from typing import Literal

from pydantic import BaseModel, ConfigDict, Field, JsonValue, TypeAdapter, ValidationError

from rewards.schema import Item, Verdict, abstained, scored
from rewards.turn import read_turn
from rewards.verifiers import Canary
from rewards.verifiers.constraints import (  # noqa: F401 - each registers its instructions
    copies,
    ifbench,
    keywords,
    layout,
    lengths,
    letters,
    positions,
    punctuation,
)
from rewards.verifiers.constraints.check import Mode, Refused, Response
from rewards.verifiers.constraints.gold import GOLD, Constraint, read_gold
from rewards.verifiers.problem import problem

__all__ = ["CANARIES", "DISTRIBUTIONS", "GOLD", "PARAMETERS", "RUNS", "verify"]

RUNS: Literal["worker"] = "worker"
DISTRIBUTIONS: Sequence[str] = ("pycld2", "langdetect", "syllapy")
_SILENT = "nothing is said outside the deliberation and tool calls"
_NAMED = 3  # Unmet instructions that feedback names.


class Parameters(BaseModel):
    """What an item may set.

    `score` is "all" by default: a mean rewards a policy for leaving out the hardest instruction.
    Public trainers use the mean; "fraction" is that.
    """

    model_config = ConfigDict(extra="forbid", frozen=True)

    mode: Mode = Field("repaired", description="whose rules: the documented, or the public ones")
    tool_output: Literal["said", "hidden"] = Field(
        "said",
        description="whose the [...] after a tool block is: what the model said, or an "
        "environment's, which is not checked; say hidden only if a real one wrote it",
    )
    evaluation: Literal["strict", "loose"] = Field(
        "strict",
        description="loose also tries the response without its first or last line, and without *",
    )
    score: Literal["all", "fraction"] = Field(
        "all", description="1 if all instructions are followed, or the share of those that are"
    )


PARAMETERS: TypeAdapter[Parameters] = TypeAdapter(Parameters)


def verify(item: Item) -> Verdict:
    """Score the response by the instructions of `item.gold`; parts hold 0 or 1 for each.

    Abstains for gold or parameters it does not understand, and for an item without a response.
    """
    if item.response is None:
        return abstained(item, "bad_item", "constraints need the response")
    try:
        parameters = PARAMETERS.validate_python(item.parameters)
    except ValidationError as fault:
        return abstained(item, "bad_item", problem(fault, Parameters.model_fields))
    try:
        constraints = read_gold(item.gold)
        text = _said(item.response, parameters)
        followed = _followed(constraints, text, parameters)
    except Refused as fault:
        return abstained(item, "bad_gold", str(fault))
    return _verdict(item, constraints, followed, parameters, blank=not text.strip())


def _said(response: str, parameters: Parameters) -> str:
    """What the model said outside its deliberation and calls; plain text stays as it is."""
    turn = read_turn(response, own_output=parameters.tool_output == "said")
    if turn.malformed:
        return ""
    return turn.text if turn.text == response else turn.text.strip()


def _followed(
    constraints: Sequence[Constraint], text: str, parameters: Parameters
) -> dict[str, bool]:
    variants = [Response(variant) for variant in _variants(text, parameters) if variant.strip()]
    return {
        constraint.name: any(
            constraint.instruction.rule(parameters.mode)(variant, constraint.parameters)
            for variant in variants
        )
        for constraint in constraints
    }


def _variants(text: str, parameters: Parameters) -> list[str]:
    """The texts any of which may follow an instruction: one, or eight for loose evaluation."""
    if parameters.evaluation == "strict":
        return [text]
    lines = text.split("\n")
    cut = [text, *("\n".join(part).strip() for part in (lines[1:], lines[:-1], lines[1:-1]))]
    return list(dict.fromkeys([*cut, *(variant.replace("*", "") for variant in cut)]))


def _verdict(
    item: Item,
    constraints: Sequence[Constraint],
    followed: dict[str, bool],
    parameters: Parameters,
    *,
    blank: bool,
) -> Verdict:
    parts = {name: float(met) for name, met in followed.items()}
    if all(followed.values()):
        return scored(item, 1.0, parts=parts)
    share = sum(parts.values()) / len(parts)
    return scored(
        item,
        share if parameters.score == "fraction" else 0.0,
        "empty" if blank else "unmet",
        parts=parts,
        feedback=_SILENT if blank else _feedback(constraints, followed),
    )


def _feedback(constraints: Sequence[Constraint], followed: dict[str, bool]) -> str:
    unmet = [constraint.line for constraint in constraints if not followed[constraint.name]]
    more = f"; and {len(unmet) - _NAMED} more" if len(unmet) > _NAMED else ""
    return f"not followed: {'; '.join(unmet[:_NAMED])}{more}"


def _canary(id: str, response: str, score: float) -> Canary:
    gold: dict[str, JsonValue] = {
        "instruction_id": ["keywords:existence"],
        "kwargs": [{"keywords": ["moss"]}],
    }
    item = Item(id=id, verifier="constraints", response=response, gold=gold)
    return Canary(item=item, score=score)


CANARIES = [_canary("followed", "The moss grew.", 1.0), _canary("unmet", "The fern grew.", 0.0)]
