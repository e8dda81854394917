"""Labelled cases in files: one JSON object a line, each an item whose right score is known.

A case is `clear` where any sound verifier agrees with its label, and `policy` where the label
follows from a rule of ours. Fields that only people read (`source`, `tags`, ...) are ignored.
"""

import ast
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, JsonValue, TypeAdapter, ValidationError

from rewards.schema import Item


@dataclass(frozen=True)
class Case:
    """An item and whether it earns the reward; `group` is a family within its kind, or empty."""

    kind: str
    group: str
    item: Item
    right: bool
    clear: bool
    note: str


class _Row(BaseModel):
    model_config = ConfigDict(extra="ignore", frozen=True)

    id: str
    expected: bool  # Files write it as 0 and 1 too.
    certainty: Literal["clear", "policy"]
    note: str = ""

    def item(self) -> Item:
        raise NotImplementedError


class _Math(_Row):
    kind: Literal["math"]
    response: str
    gold: JsonValue

    def item(self) -> Item:
        return Item(id=self.id, verifier="math", response=self.response, gold=self.gold)


class _Answer(_Row):
    kind: Literal["answer"]
    response: str
    gold: JsonValue
    normaliser: str | None = None
    tool: dict[str, JsonValue] | None = None

    def item(self) -> Item:
        parameters = self.model_dump(include={"normaliser", "tool"}, exclude_none=True)
        return Item(
            id=self.id, verifier="answer", response=self.response, gold=self.gold,
            parameters=parameters,
        )  # fmt: skip


class _Constraints(_Row):
    kind: Literal["if"]
    family: str
    instruction_id: str
    params: dict[str, JsonValue] = Field(default_factory=dict)
    response: str

    def item(self) -> Item:
        gold: JsonValue = {"instruction_id": [self.instruction_id], "kwargs": [self.params]}
        return Item(id=self.id, verifier="constraints", response=self.response, gold=gold)


class _Code(_Row):
    kind: Literal["code"]
    program: str | None = None
    response: str | None = None
    tests: dict[str, JsonValue]
    time_limit_s: float | None = None
    checker: dict[str, JsonValue] | None = None

    def item(self) -> Item:
        parameters = self.model_dump(include={"time_limit_s", "checker"}, exclude_none=True)
        response = self.response
        if self.program is not None:
            response = self.program
            parameters["extract"] = "whole"
        return Item(
            id=self.id, verifier="code", response=response, gold=_evaluated(self.tests),
            parameters=parameters,
        )  # fmt: skip


_ROW: TypeAdapter[_Math | _Answer | _Constraints | _Code] = TypeAdapter(
    Annotated[_Math | _Answer | _Constraints | _Code, Field(discriminator="kind")]
)


def read(folder: Path) -> Sequence[Case]:
    """All cases of the `*.jsonl` files in `folder`; ValueError with file and line, or if none."""
    cases = [case for path in sorted(folder.glob("*.jsonl")) for case in _cases(path)]
    if not cases:
        raise ValueError(f"{folder} holds no case: give a folder with *.jsonl files of cases")
    return cases


def _cases(path: Path) -> Iterator[Case]:
    for number, line in enumerate(path.read_text().splitlines(), start=1):
        if not line.strip():
            continue
        try:
            row = _ROW.validate_json(line)
            item = row.item()
        except ValidationError as fault:
            first = fault.errors()[0]
            where = ".".join(map(str, first["loc"])) or "line"
            raise ValueError(f"{path}:{number}: {where}: {first['msg']}") from None
        except ValueError as fault:
            raise ValueError(f"{path}:{number}: {fault}") from None
        group = row.family if isinstance(row, _Constraints) else ""
        yield Case(row.kind, group, item, row.expected, row.certainty == "clear", row.note)


_PURE: Mapping[str, Any] = MappingProxyType(
    {"chr": chr, "map": map, "range": range, "reversed": reversed, "sorted": sorted, "str": str,
     "sum": sum}
)  # fmt: skip


def _evaluated(tests: dict[str, JsonValue]) -> dict[str, JsonValue]:
    """`tests` with `outputs` in place of `outputs_expr`, which writes one long output shortly."""
    if "outputs_expr" not in tests:
        return tests
    rest = {key: value for key, value in tests.items() if key != "outputs_expr"}
    return {**rest, "outputs": [_value(str(tests["outputs_expr"]))]}


def _value(expression: str) -> str:
    """The text an expression over literals, str methods and `_PURE` yields; else ValueError."""
    try:
        tree = ast.parse(expression, mode="eval")
    except SyntaxError as fault:
        raise ValueError(f"outputs_expr: {fault.msg}") from None
    for node in ast.walk(tree):
        if isinstance(node, ast.Attribute) and node.attr != "join":
            raise ValueError(f"outputs_expr: .{node.attr} is not allowed")
        if isinstance(node, ast.Name) and node.id not in _PURE and isinstance(node.ctx, ast.Load):
            raise ValueError(f"outputs_expr: {node.id} is not allowed")
    return str(eval(compile(tree, "outputs_expr", "eval"), {"__builtins__": {}, **_PURE}))
