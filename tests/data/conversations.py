"""Conversations of every form that data come in, drawn for properties."""

import json
from typing import Any

from hypothesis import strategies as st

from posttrain.data import tiny

TEXT = st.text(st.characters(exclude_characters="<", exclude_categories=["Cs"]), max_size=30)
NAMES = st.sampled_from(["display_answers", "run_code"])
ARGUMENTS = st.fixed_dictionaries({"answers": st.lists(TEXT, min_size=1, max_size=3)})
AS_TEXT = ARGUMENTS.map(lambda value: json.dumps(value, ensure_ascii=False))
CALL = st.fixed_dictionaries({"name": NAMES, "arguments": ARGUMENTS | AS_TEXT})
WRAPPED = st.fixed_dictionaries({"type": st.just("function"), "function": CALL})

ALONE = st.fixed_dictionaries({"name": st.just("display_answers"), "arguments": ARGUMENTS})
CODE = st.fixed_dictionaries({"name": st.just("run_code"), "arguments": ARGUMENTS | AS_TEXT})

SIDE_BY_SIDE = st.fixed_dictionaries(
    {
        "role": st.just("assistant"),
        "thoughts": st.none() | TEXT,
        "tool_calls": st.lists(CALL, max_size=2) | st.lists(WRAPPED, max_size=2),
        "tool_outputs": st.lists(TEXT, max_size=2),
        "content": st.none() | TEXT,
    }
)
BLOCK = st.one_of(
    st.fixed_dictionaries({"type": st.sampled_from(["thoughts", "response"]), "text": TEXT}),
    st.fixed_dictionaries(
        {"type": st.just("tool_calls"), "calls": st.lists(CALL, min_size=1, max_size=2)}
    ),
    st.fixed_dictionaries(
        {
            "type": st.just("tool_outputs"),
            "outputs": st.lists(st.fixed_dictionaries({"output": TEXT}), min_size=1, max_size=2),
        }
    ),
)
STRUCTURED = st.lists(BLOCK, min_size=1, max_size=5).map(
    lambda blocks: {"role": "assistant", "content": {"blocks": blocks}}
)
PARTS = st.lists(TEXT.map(lambda text: {"type": "text", "text": text}), min_size=1, max_size=3)
USER = st.fixed_dictionaries(
    {"role": st.just("user"), "content": TEXT | PARTS | PARTS.map(lambda parts: {"parts": parts})}
)
TOOL = st.fixed_dictionaries({"role": st.just("tool"), "content": TEXT})

SCALAR = st.fixed_dictionaries(
    {"type": st.sampled_from(["string", "number", "integer", "boolean", "object", "null"])},
    optional={"description": TEXT, "nullable": st.booleans(), "default": st.none() | TEXT},
)
ENUM = st.fixed_dictionaries(
    {"type": st.just("string"), "enum": st.lists(TEXT, min_size=1, max_size=3)},
    optional={"default": TEXT},
)
UNION = st.fixed_dictionaries(
    {"type": st.lists(st.sampled_from(["string", "object", "null"]), min_size=1, max_size=2)}
)
SCHEMA: st.SearchStrategy[Any] = st.recursive(
    SCALAR | ENUM | UNION | st.just({}),
    lambda inner: st.one_of(
        st.fixed_dictionaries(
            {"type": st.just("array")}, optional={"items": inner, "nullable": st.booleans()}
        ),
        st.fixed_dictionaries(
            {
                "type": st.just("object"),
                "properties": st.dictionaries(st.sampled_from("xyz"), inner, max_size=2),
            },
            optional={"required": st.lists(st.sampled_from("xyz"), max_size=2)},
        ),
        st.fixed_dictionaries(
            {"oneOf": st.lists(inner, min_size=1, max_size=3)}, optional={"default": TEXT}
        ),
    ),
    max_leaves=5,
)
TOOLS = st.lists(
    st.fixed_dictionaries(
        {
            "name": NAMES,
            "description": TEXT,
            "parameters": st.just({})
            | st.fixed_dictionaries(
                {
                    "type": st.just("object"),
                    "properties": st.dictionaries(st.sampled_from("abc"), SCHEMA, max_size=3),
                    "required": st.lists(st.sampled_from("abc"), max_size=2),
                }
            ),
        }
    ).flatmap(lambda tool: st.sampled_from([tool, {"type": "function", "function": tool}])),
    max_size=2,
)


@st.composite
def conversations(draw: st.DrawFn, structured: bool | None = None) -> Any:
    """A row; its assistant speaks in one form throughout."""
    leading = st.sampled_from([[], ["system"], ["developer"], ["system", "developer"]])
    messages = [{"role": role, "content": draw(TEXT)} for role in draw(leading)]
    form = draw(st.booleans()) if structured is None else structured
    assistant = STRUCTURED if form else SIDE_BY_SIDE
    for message in draw(st.lists(USER | assistant | TOOL, min_size=1, max_size=5)):
        spoken = messages and messages[-1]["role"] in ("assistant", "tool")
        if message["role"] != "tool" or spoken:
            messages.append(message)
    messages = messages or [draw(USER)]
    tools = draw(TOOLS | st.just([tiny.ANSWER_TOOL]))
    return {"messages": messages, "tools": tools, "deliberation": draw(st.booleans())}
