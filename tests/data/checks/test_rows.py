"""Reading rows: whatever is wrong with one has its place, and nothing is lost."""

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from posttrain.data.checks.rows import Dataset, Fault, Row, mapped, read_jsonl, texts
from tests.data.checks.samples import dialogue

JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=6), inner),
    max_leaves=8,
)
CONTENT = st.dictionaries(st.sampled_from(["messages", "tools", "prompt", "text", "gold"]), JSON)


@pytest.mark.parametrize(
    ("line", "told"),
    [
        (b'{"a": 1', "row 2: is not JSON at column 8"),
        (b"[1]", "row 2: must be a JSON object, is an array"),
        (b"", "row 2: is not JSON at column 1"),
        (b'{"text": "\xff"}', "row 2: is not UTF-8 at byte 11"),
        (b'{"text": "\\ud83d"}', "row 2: text: holds half of a surrogate pair"),
        (b'{"text": 1, "x": NaN}', "row 2: is not JSON: NaN is no number"),
        (b"[" * 100_000, "row 2: is not JSON"),
    ],
)
def test_a_broken_row_is_named_and_the_others_are_read(
    tmp_path: Path, line: bytes, told: str
) -> None:
    path = tmp_path / "rows.jsonl"
    path.write_bytes(b'{"text": "\\ud83d\\ude00"}\n' + line + b'\n{"text": "c"}\n')
    rows = list(read_jsonl(path, "talk"))
    assert [type(row) for row in rows] == [Row, Fault, Row]
    assert f"rows.jsonl: {told}" in str(rows[1])
    with pytest.raises(ValueError, match=r"rows.jsonl: row 2: .*; repair or remove the row"):
        list(Dataset("talk", "", lambda: read_jsonl(path, "talk")).rows())


def test_every_text_is_given_with_field_and_speaker() -> None:
    row = dialogue("q", "a", id="7", source="here")
    row["messages"].insert(0, {"role": "system", "content": "s"})
    row["messages"][2] |= {
        "thoughts": "t",
        "tool_calls": [{"name": "f", "arguments": {"x": ["y"], "name": "z"}}],
        "tool_outputs": ["o"],
    }
    row["tools"] = [{"name": "f", "description": "d", "parameters": {"x": "string[]"}}]
    assert [tuple(text) for text in texts(row)] == [
        ("messages[0].content", "system", "s"),
        ("messages[1].content", "user", "q"),
        ("messages[2].content", "assistant", "a"),
        ("messages[2].thoughts", "assistant", "t"),
        ("messages[2].tool_calls[0].arguments.x[0]", "assistant", "y"),
        ("messages[2].tool_calls[0].arguments.name", "assistant", "z"),
        ("messages[2].tool_outputs[0]", "tool", "o"),
        ("tools[0].description", "system", "d"),
        ("tools[0].parameters.x", "system", "string[]"),
    ]


@given(CONTENT)
def test_a_change_reaches_every_text_and_nothing_else(content: dict[str, Any]) -> None:
    before = json.dumps(content)
    changed = mapped(content, lambda text: f"<{text}>")
    assert sorted(text.text for text in texts(changed)) == sorted(
        f"<{text.text}>" for text in texts(content)
    )
    assert json.dumps(content) == before
    assert mapped(content, str) == content
