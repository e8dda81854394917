"""Tools as TypeScript types: to the letter what models were trained on, line breaks included."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from posttrain.data.declarations import declarations
from tests.data.conversations import TOOLS

NESTED = "\n                "


def typed(spec: Any, *, required: bool = True) -> str:
    """How the one parameter of a tool is declared."""
    schema = {
        "type": "object",
        "properties": {"x": spec},
        "required": ["x"] if required else [],
    }
    text = declarations([{"name": "f", "description": "d", "parameters": schema}])
    return text.removeprefix("// d\ntype f = (_: {\n").removesuffix("\n}) => any;")


@pytest.mark.parametrize(
    ("spec", "declared"),
    [
        ({"type": "string"}, "x: string"),
        ({"type": "string", "nullable": True}, "x: string | null"),
        ({"type": "string", "enum": ["a", "b"], "default": "a"}, 'x: "a" | "b", // default: a'),
        ({"type": "integer", "description": "How many"}, "// How many\nx: number"),
        ({"type": "number", "default": 3}, "x: number, // default: 3"),
        ({"type": "boolean", "default": None}, "x: boolean, // default: null"),
        ({"type": ["string", "null"]}, "x: string | null"),
        ({}, "x: any"),
        ({"type": "array"}, "x: any[]"),
        ({"type": "array", "items": {"type": "integer"}, "nullable": True}, "x: number[] | null"),
        ({"type": "array", "items": {"type": "array", "items": {}}}, "x: any[][]"),
        ({"type": "array", "items": {"type": ["object", "object"]}}, "x: any[]"),
        ({"type": "object"}, "x: object"),
        (
            {
                "type": "object",
                "properties": {"a": {"type": "string"}, "b": {"type": "number"}},
                "required": ["b"],
            },
            f"x: {{\na?: {NESTED}string, b: {NESTED}number}}",
        ),
        (
            {"type": "array", "items": {"type": "object", "properties": {"long": {}, "b": {}}}},
            "x: any[]",
        ),
        (
            {"oneOf": [{"type": "string", "description": "s"}, {"type": "object"}], "default": "q"},
            "x: string// s | \nobject// default: q",
        ),
    ],
)  # fmt: skip
def test_a_type_is_declared(spec: Any, declared: str) -> None:
    assert typed(spec) == declared


def test_what_is_not_required_may_be_left_out() -> None:
    assert typed({"type": "string"}, required=False) == "x?: string"


def test_tools_are_one_after_the_other() -> None:
    tools: list[Any] = [
        {"name": "f", "description": "First."},
        {"type": "function", "function": {"name": "g", "description": "", "parameters": {}}},
    ]
    assert declarations(tools) == "// First.\ntype f = () => any;\n// \ntype g = () => any;"
    assert declarations([]) == ""


@given(TOOLS, st.integers(0, 1))
def test_a_declaration_depends_on_its_tool_alone(tools: list[Any], at: int) -> None:
    alone = [declarations([tool]) for tool in tools]
    assert declarations(tools) == "\n".join(alone)
    assert declarations(tools[at:]) == "\n".join(alone[at:])
