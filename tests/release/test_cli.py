"""`posttrain release check`: what it prints, and its exit codes."""

import contextlib
import io
import json
import socket
import sys
from pathlib import Path
from unittest import mock

import pytest

from posttrain import cli
from tests.release.conftest import Served
from tests.release.fake import MODEL


def check(url: str, *options: str) -> tuple[object, str, str]:
    """What `release check` does."""
    return command("release", "check", url, "--model", MODEL, *options)


def command(*arguments: str) -> tuple[object, str, str]:
    """Exit code, output and errors of a command."""
    out, err = io.StringIO(), io.StringIO()
    line = ["posttrain", *arguments]
    with (
        mock.patch.object(sys, "argv", line),
        contextlib.redirect_stdout(out),
        contextlib.redirect_stderr(err),
        pytest.raises(SystemExit) as end,
    ):
        cli.main()
    return end.value.code, out.getvalue(), err.getvalue()


def test_all_is_well(served: Served) -> None:
    served.probe()
    code, out, _ = check(served.url, "--group", "streaming", "--group", "core")
    assert code == 0
    assert "26 of 26 checks" in out
    assert "streaming/stream-closed" in out
    assert "next: posttrain promote" in out


def test_a_failed_check_is_told_with_exit_code_3(served: Served) -> None:
    served.probe("stream breaks off")
    code, out, err = check(served.url, "--group", "streaming", "--json")
    assert code == 3
    report = json.loads(out)
    assert not report["passed"]
    assert report["counts"]["fail"] == 1
    assert "stream-closed" in err


def test_an_endpoint_that_is_gone_is_told_with_exit_code_4(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("posttrain.release.endpoint._BEFORE_GONE", 0.01)
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
    code, out, err = check(f"http://127.0.0.1:{port}/v1", "--json")
    assert code == 4
    assert json.loads(out)["passed"] is False
    assert err.startswith("error: the endpoint")
    assert err.count("\n") == 1


@pytest.mark.parametrize(
    ("options", "told"),
    [
        (["--group", "cores"], "unknown group 'cores'"),
        (["--modality", "smell"], "--modality smell is none of image, audio"),
        (["--model-checks", "perhaps"], "is none of fail, warn, skip"),
        (["--key-from", "NO_SUCH_VARIABLE"], "this variable is not set"),
    ],
)
def test_wrong_input_is_told_with_exit_code_2(options: list[str], told: str) -> None:
    code, _, err = check("http://127.0.0.1:9/v1", *options)
    assert code == 2
    assert told in err


def test_parity_is_told_by_its_exit_code(served: Served, own_head: Path) -> None:
    def parity(*options: str) -> tuple[object, str, str]:
        return command("release", "parity", served.url, str(own_head), *options)

    served.probe()
    code, out, _ = parity("--model", MODEL)
    assert (code, "renders and ends as" in out) == (0, True)
    served.probe("begin twice")
    code, out, err = parity("--model", MODEL, "--json")
    assert code == 3
    assert "renders 2 times" in json.loads(out)["faults"][0]
    assert "things otherwise" in err
