"""Case files: what becomes of each kind, and what is said of a broken line."""

import json
from pathlib import Path
from typing import Any

import pytest

from rewards.audit.corpus import read

BASE: dict[str, Any] = {"id": "c", "expected": 1, "certainty": "clear", "tags": ["x"], "note": "n"}
MATH = {**BASE, "kind": "math", "response": "4", "gold": "4"}
CODE = {**BASE, "kind": "code", "format": "stdio", "program": "print(1)"}


def write(folder: Path, *rows: Any) -> Path:
    (folder / "cases.jsonl").write_text("\n".join(map(json.dumps, rows)))
    return folder


def item(folder: Path, row: Any) -> dict[str, Any]:
    (case,) = read(write(folder, row))
    return case.item.model_dump(exclude_none=True)


def test_a_case_has_its_label(tmp_path: Path) -> None:
    (tmp_path / "b.jsonl").write_text(f"\n{json.dumps({**MATH, 'expected': 0})}\n\n")
    policy = {**MATH, "certainty": "policy", "expected": True}
    wrong, right = sorted(read(write(tmp_path, policy)), key=lambda case: case.right)
    assert (wrong.right, wrong.clear, wrong.note) == (False, True, "n")
    assert (right.right, right.clear, right.kind, right.group) == (True, False, "math", "")


def test_answers_bring_normaliser_and_tool(tmp_path: Path) -> None:
    settings = {"normaliser": "squad", "tool": {"name": "t", "arg": "a", "type": "string[]"}}
    row = {**BASE, **settings, "kind": "answer", "response": "r", "gold": {"all_of": ["1"]}}
    found = item(tmp_path, row)
    assert found["parameters"] == settings
    assert (found["verifier"], found["gold"]) == ("answer", {"all_of": ["1"]})


def test_an_instruction_becomes_gold_of_constraints(tmp_path: Path) -> None:
    row = {**BASE, "kind": "if", "family": "ifeval", "instruction_id": "a:b", "params": {"n": 1},
           "response": ""}  # fmt: skip
    found = item(tmp_path, row)
    assert found["verifier"] == "constraints"
    assert found["gold"] == {"instruction_id": ["a:b"], "kwargs": [{"n": 1}]}
    assert read(tmp_path)[0].group == "ifeval"


def test_a_program_is_taken_whole_and_a_response_searched(tmp_path: Path) -> None:
    tests = {"inputs": [""], "outputs": ["1"]}
    limits = {"time_limit_s": 2.0, "checker": {"type": "tokens"}}
    whole = item(tmp_path, {**CODE, "tests": tests, **limits})
    assert (whole["response"], whole["gold"]) == ("print(1)", tests)
    assert whole["parameters"] == {**limits, "extract": "whole"}
    fenced = {**CODE, "tests": tests, "response": "```python\n```"}
    del fenced["program"]
    assert item(tmp_path, fenced)["parameters"] == {}


def test_a_long_output_may_be_an_expression(tmp_path: Path) -> None:
    tests = {"inputs": [""], "outputs_expr": "','.join(map(str, range(3))) + '!'"}
    assert item(tmp_path, {**CODE, "tests": tests})["gold"] == {
        "inputs": [""], "outputs": ["0,1,2!"]
    }  # fmt: skip


@pytest.mark.parametrize(
    "expression",
    ["open('/etc/passwd').read()", "__import__('os')", "''.__class__", "(1).real", "1 +"],
)
def test_an_expression_may_not_do_more(tmp_path: Path, expression: str) -> None:
    row = {**CODE, "tests": {"inputs": [], "outputs_expr": expression}}
    with pytest.raises(ValueError, match=r"cases.jsonl:1: outputs_expr: "):
        read(write(tmp_path, row))


@pytest.mark.parametrize(
    ("row", "says"),
    [
        ({**MATH, "kind": "music"}, "music"),
        ({**MATH, "certainty": "sure"}, "certainty"),
        ({**MATH, "expected": 2}, "expected"),
        ({key: MATH[key] for key in MATH if key != "gold"}, "gold"),
        ({**CODE, "program": None, "tests": {}}, "give `response` or `answers`"),
    ],
)
def test_a_broken_case_is_told_by_file_and_line(tmp_path: Path, row: Any, says: str) -> None:
    with pytest.raises(ValueError, match=rf"cases.jsonl:2: .*{says}"):
        read(write(tmp_path, MATH, row))


def test_a_folder_without_cases_is_no_success(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="holds no case"):
        read(tmp_path)
