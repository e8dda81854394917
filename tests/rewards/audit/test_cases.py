"""`python -m rewards.audit.cases`: the lines others read, the report file, the exit code."""

import json
from pathlib import Path

import pytest

from rewards.audit.cases import main
from tests.rewards.audit.test_auditing import lenient
from tests.rewards.service import Service

__all__ = ["lenient"]
CASES = Path(__file__).parents[1] / "cases"
MATH = {"kind": "math", "certainty": "clear", "gold": "4"}


def write(folder: Path, *rows: dict[str, object]) -> Path:
    lines = [json.dumps({**row, "id": f"c{number}"}) for number, row in enumerate(rows)]
    (folder / "rows.jsonl").write_text("\n".join(lines))
    return folder


def test_lines_file_and_code(
    tmp_path: Path, service: Service, capsys: pytest.CaptureFixture[str]
) -> None:
    right = {**MATH, "response": "\\boxed{4}", "expected": 1}
    mislabelled = {**MATH, "response": "\\boxed{5}", "expected": 1}
    policy = {**right, "certainty": "policy"}
    out = tmp_path / "report.jsonl"
    folder = write(tmp_path, right, mislabelled, policy)
    assert main([str(folder), "--url", service.url, "--out", str(out)]) == 0
    first, second = capsys.readouterr().out.splitlines()
    assert first == "math accuracy=0.500 clear=2 false_accepts=0 false_rejects=1"
    assert second.endswith(str(out))
    listed = [json.loads(line) for line in out.read_text().splitlines()]
    assert [row["id"] for row in listed] == ["c1", "c2"]


def test_a_fault_is_counted_apart_and_fails(
    tmp_path: Path, lenient: Service, capsys: pytest.CaptureFixture[str]
) -> None:
    down = {"kind": "answer", "certainty": "clear", "gold": "4", "response": "DOWN", "expected": 0}
    up = {**down, "response": "4"}
    folder = write(tmp_path, down, up)
    out = str(tmp_path / "report.jsonl")
    assert main([str(folder), "--url", lenient.url, "--out", out]) == 1
    line = "answer accuracy=0.000 clear=2 false_accepts=1 false_rejects=0 faults=1"
    assert capsys.readouterr().out.splitlines()[0] == line


def test_a_service_is_started_where_none_is_named(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The families of a kind have lines of their own."""
    (tmp_path / "if.jsonl").write_text((CASES / "if.jsonl").read_text())
    assert main([str(tmp_path), "--out", str(tmp_path / "report")]) == 0
    names = [line.split()[0] for line in capsys.readouterr().out.splitlines()[:4]]
    assert names == ["if", "if/ifeval", "if/ifrlvr", "if/ifbench"]


@pytest.mark.parametrize(("text", "says"), [("", "holds no case"), ("{", "rows.jsonl:1: ")])
def test_wrong_use_is_one_line(
    tmp_path: Path, text: str, says: str, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "rows.jsonl").write_text(text)
    assert main([str(tmp_path)]) == 2
    assert says in capsys.readouterr().err
