"""What was asked of a response: instruction ids with their kwargs, in the public forms.

Bounded in size; a text form is read as JSON or as a Python literal, and never evaluated.
"""

import ast
import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated, Any, Self

from pydantic import (
    AliasChoices,
    BaseModel,
    ConfigDict,
    Field,
    JsonValue,
    StringConstraints,
    TypeAdapter,
    ValidationError,
    model_validator,
)

from rewards.verifiers.constraints.check import (
    INSTRUCTIONS,
    Instruction,
    Parameters,
    Refused,
)

_MOST = 64
_LONGEST = 200_000


class Asked(BaseModel):
    """Instruction ids and the kwargs of each; null kwargs, and null among them, say nothing."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    ids: Annotated[list[str], Field(min_length=1, max_length=_MOST)] = Field(
        validation_alias=AliasChoices("instruction_id", "instruction_id_list")
    )
    arguments: list[dict[str, JsonValue] | None] = Field(validation_alias=AliasChoices("kwargs"))

    @model_validator(mode="after")
    def _pairs(self) -> Self:
        if len(self.ids) != len(self.arguments):
            raise ValueError(f"{len(self.ids)} ids, {len(self.arguments)} kwargs")
        return self


Text = Annotated[str, StringConstraints(max_length=_LONGEST)]
GOLD: TypeAdapter[Any] = TypeAdapter(
    Annotated[
        Asked | Annotated[list[Asked | Text], Field(min_length=1, max_length=1)] | Text,
        Field(
            description="the instructions; or, as IF-RLVR writes them, a list of one object or of "
            "its JSON, or the text of such a list"
        ),
    ]
)


@dataclass(frozen=True)
class Constraint:
    """One instruction with its validated parameters; `name` tells repeated ids apart."""

    name: str
    instruction: Instruction[Any]
    parameters: Parameters

    @property
    def line(self) -> str:
        """What was asked, in one line."""
        return self.instruction.line(self.parameters)


def read_gold(content: JsonValue) -> Sequence[Constraint]:
    """The constraints of an item's gold; Refused says in one line what is wrong with it."""
    try:
        asked = Asked.model_validate(_unwrapped(content))
    except ValidationError as fault:
        raise Refused(_first(fault)) from None
    found: list[Constraint] = []
    seen: dict[str, int] = {}
    for id, kwargs in zip(asked.ids, asked.arguments, strict=True):
        seen[id] = seen.get(id, 0) + 1
        name = id if seen[id] == 1 else f"{id}#{seen[id]}"
        found.append(_constraint(name, id, kwargs or {}))
    return found


def _unwrapped(content: Any) -> Any:
    """`content` without the text and the list of one round it."""
    for _ in range(3):
        if isinstance(content, str):
            content = _parsed(content)
        if not isinstance(content, list):
            return content
        if len(content) != 1:
            raise Refused(f"a list of {len(content)} stands for the instructions, not of 1")
        content = content[0]
    return content


def _parsed(text: str) -> Any:
    if len(text) > _LONGEST:
        raise Refused(f"the text has {len(text)} characters, more than {_LONGEST}")
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        pass
    try:
        return ast.literal_eval(text)
    except (ValueError, TypeError, SyntaxError, RecursionError, MemoryError):
        raise Refused("the text is neither JSON nor a Python literal") from None


def _constraint(name: str, id: str, kwargs: dict[str, JsonValue]) -> Constraint:
    if id not in INSTRUCTIONS:
        raise Refused(f"no instruction {id!r}")
    instruction = INSTRUCTIONS[id]
    given = {key: value for key, value in kwargs.items() if value is not None}
    try:
        return Constraint(name, instruction, instruction.parameters.model_validate(given))
    except ValidationError as fault:
        raise Refused(f"{name}: {_first(fault)}") from None


def _first(fault: ValidationError) -> str:
    error = fault.errors(include_url=False, include_input=False, include_context=False)[0]
    place = ".".join(map(str, error["loc"]))
    return f"{place}: {error['msg']}" if place else str(error["msg"])
