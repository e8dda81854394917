"""The command line, as users call it."""

import json
import os
import subprocess
import sys
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from sandbox.cli import main
from tests.sandbox.service import ROOT

TESTS = {"mode": "stdio", "tests": [{"stdin": "2\n", "expected": "4"}]}


def sandbox(*arguments: str, command: Sequence[str] = ("sandbox",)) -> tuple[int, str, str]:
    """Exit code, output and errors of the command, where no Docker daemon answers."""
    done = subprocess.run(
        [sys.executable, "-m", *command, *arguments],
        cwd=ROOT, capture_output=True, text=True, timeout=120, check=False,
        env={**os.environ, "DOCKER_HOST": "unix:///nowhere/docker.sock"},
    )  # fmt: skip
    return done.returncode, done.stdout, done.stderr


def written(folder: Path, name: str, code: str, tests: Any) -> Sequence[str]:
    """Arguments of `sandbox run` on a file with this code."""
    (folder / name).write_text(code)
    (folder / "tests.json").write_text(tests if isinstance(tests, str) else json.dumps(tests))
    return ("run", str(folder / name), "--tests", str(folder / "tests.json"))


@pytest.mark.parametrize(
    ("name", "code", "exit_code", "verdict"),
    [
        ("twice.py", "print(int(input()) * 2)", 0, "OK"),
        ("twice.sh", "read x; echo $((x * 2))", 0, "OK"),
        ("wrong.py", "print(5)", 1, "WA"),
    ],
)
def test_run_judges_a_file(
    tmp_path: Path, name: str, code: str, exit_code: int, verdict: str
) -> None:
    status, output, errors = sandbox(*written(tmp_path, name, code, TESTS))
    assert (status, errors) == (exit_code, "")
    assert json.loads(output)["verdict"] == verdict


@pytest.mark.parametrize(
    ("tests", "says"),
    [
        ("{", "not JSON"), ([], "no object"), ({**TESTS, "tests": []}, "at least 1"),
        ({**TESTS, "mode": "eval"}, "mode"),
    ],
)  # fmt: skip
def test_wrong_tests_end_in_one_line(
    tmp_path: Path,
    tests: Any,
    says: str,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setattr(sys, "argv", ["sandbox", *written(tmp_path, "a.py", "", tests)])
    assert main() == 2
    told = capsys.readouterr()
    assert (told.out, says in told.err, len(told.err.splitlines())) == ("", True, 1)


def test_doctor_and_selftest_tell_what_holds() -> None:
    with ThreadPoolExecutor() as threads:
        tested, told = threads.map(sandbox, ("selftest", "doctor"))
    status, output, errors = tested
    assert (status, errors) == (0, "")
    assert len(output.splitlines()) > 10
    assert all(line.endswith("holds") for line in output.splitlines())
    status, output, errors = told
    assert (status, errors) == (0, "")
    assert "memory" in output
    assert "missing" not in output


def test_the_selftest_is_never_run_without_isolation() -> None:
    """Its probes would reach the machine itself: they signal every process they can see."""
    status, output, errors = sandbox("selftest", "--tier", "process")
    assert (status, output) == (2, "")
    assert "does not isolate" in errors


@pytest.mark.parametrize("command", [("sandbox",), ("posttrain", "sandbox")], ids=" ".join)
def test_a_tier_that_cannot_be_had_is_told_in_one_line(command: Sequence[str]) -> None:
    status, output, errors = sandbox("selftest", "--tier", "docker", command=command)
    assert (status, output) == (4, "")
    assert "no Docker daemon answers" in errors
    assert len(errors.splitlines()) == 1


def test_the_doctor_says_what_another_tier_lacks() -> None:
    status, output, errors = sandbox("doctor", "--tier", "docker")
    assert (status, errors) == (1, "")
    assert output.startswith("missing  tier docker")
    assert "no Docker daemon answers" in output
