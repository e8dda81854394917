"""A running service: what it refuses, what it says, how it ends."""

import json
import signal
import socket
import sys
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from sandbox import serve
from sandbox.app import BODY
from sandbox.cli import main
from sandbox.judging.verdicts import summed
from sandbox.schema import MOST_TESTS, TestResult
from tests.sandbox.service import Service, serving, start
from tests.waiting import eventually

UNSAFE = ("--tier", "process", "--allow-unsafe")
"""For a service of the test's own where its subject is not isolation: it starts at once."""

TEST = {"stdin": "2\n", "expected": "4\n"}
RIGHT: dict[str, Any] = {
    "id": "right", "mode": "stdio", "code": "print(2 * int(input()))", "tests": [TEST],
}  # fmt: skip
CALL = {"id": "call", "mode": "function", "code": "def f(x): return x", "function": "f"}


def test_a_result_says_what_was_used(sandbox: Service) -> None:
    status, result = sandbox.ask("POST", "/v1/execute", RIGHT)
    assert status == 200
    (test,) = result.pop("tests")
    assert result.pop("queue_s") >= 0
    assert result == {
        "id": "right", "verdict": "OK", "reward": 1, "retryable": False, "tier": "namespaces",
        "detail": None, "compilation": None, "total": 1,
    }  # fmt: skip
    assert (test["verdict"], test["exit_code"], test["stdout"]) == ("OK", 0, "4\n")
    assert test["wall_s"] > 0
    assert test["cpu_s"] > 0


def without(body: dict[str, Any], key: str) -> dict[str, Any]:
    return {name: value for name, value in body.items() if name != key}


@pytest.mark.parametrize(
    ("body", "says"),
    [
        (b"", "EOF"),
        (b"[]", "valid dictionary"),
        (b'{"id": NaN}', "expected value"),
        (without(RIGHT, "mode"), "mode"),
        ({**RIGHT, "mode": "eval"}, "mode"),
        (without(RIGHT, "id"), '"id"'),
        ({**RIGHT, "tests": []}, "at least 1"),
        ({**RIGHT, "tests": [TEST] * (MOST_TESTS + 1)}, f"at most {MOST_TESTS}"),
        ({**RIGHT, "tests": [TEST, {"stdin": "2\n"}]}, '"tests", 1, "expected"'),
        ({**RIGHT, "tests": [{**TEST, "expected": None}]}, '"tests", 0, "expected"'),
        ({**RIGHT, "tests": [{**TEST, "answer": "4"}]}, '"tests", 0, "answer"'),
        ({**RIGHT, "limits": {"cpu_s": 1e9}}, '"limits", "cpu_s"'),
        ({**RIGHT, "limits": {"cpu_s": "2"}}, '"limits", "cpu_s"'),
        ({**RIGHT, "checker": {"type": "fuzzy"}}, '"checker", "type"'),
        ({**CALL, "tests": [{"args": [1]}]}, '"tests", 0, "expected"'),
        ({**CALL, "tests": [{"args": 1, "expected": 1}]}, '"tests", 0, "args"'),
        ({**CALL, "tests": [{"expected": 1}], "checker": {"type": "lines"}}, "float"),
        ({**RIGHT, "mode": "assert", "tests": []}, "at least 1"),
        ({"id": "p", "mode": "pytest", "code": "", "files": {}}, "at least 1"),
    ],
)
def test_a_submission_that_means_nothing_is_refused(sandbox: Service, body: Any, says: str) -> None:
    status, content = sandbox.ask("POST", "/v1/execute", body)
    assert status == 422
    assert says in json.dumps(content)


def test_null_may_be_expected_of_a_call_if_it_is_said(sandbox: Service) -> None:
    code = "def f(x): pass"
    assert sandbox.call(code, "f", [1], None)["reward"] == 1
    assert sandbox.call("def f(x): raise ValueError", "f", [1], None)["verdict"] == "RE"


def test_a_body_has_a_bound(sandbox: Service) -> None:
    status, content = sandbox.ask("POST", "/v1/execute", b"x" * (BODY + 1))
    assert status == 413, content


def test_a_head_has_a_bound(sandbox: Service) -> None:
    """Without a token, one could fill the memory of the service."""
    with socket.create_connection(("127.0.0.1", sandbox.port), timeout=30) as client:
        client.sendall(b"POST /v1/execute HTTP/1.1\r\nx: ")
        with suppress(ConnectionError):  # It need not listen to all of it.
            for _ in range(200):
                client.sendall(b"y" * 2**16)
            pytest.fail("it took 12 MiB of one header")
    assert sandbox.ask("GET", "/healthz")[0] == 200


def test_ids_are_used_once(sandbox: Service) -> None:
    first = sandbox.ask("POST", "/v1/execute", {**RIGHT, "id": "once"})
    assert sandbox.ask("POST", "/v1/execute", {**RIGHT, "id": "once"}) == first
    assert sandbox.ask("POST", "/v1/execute", {**RIGHT, "id": "once", "code": ""})[0] == 409


ENDINGS = {
    "RE": "print(4)\nraise SystemExit(3)",
    "WA": "print(5)",
    "TLE": "while True: pass",
    "MLE": "x = [bytearray(2**20) for _ in range(10**6)]",
    "OLE": "while True: print('x' * 1000)",
    "UNSUPPORTED": None,
}


@pytest.mark.parametrize("verdict", ENDINGS)
def test_verdicts(sandbox: Service, verdict: str) -> None:
    code = ENDINGS[verdict]
    language = "python" if code else "cobol"
    limits = {"cpu_s": 0.4, "memory_mb": 64, "output_kb": 64}
    result = sandbox.stdio(code or "", "4", language=language, limits=limits)
    assert result["verdict"] == verdict, result
    assert result["reward"] == (None if verdict == "UNSUPPORTED" else 0)
    assert not result["retryable"]


def test_right_output_does_not_count_without_a_good_end(sandbox: Service) -> None:
    for tail in ("raise ValueError", "exit(1)", "import os; os.kill(os.getpid(), 11)"):
        assert sandbox.stdio(f"print(4, flush=True)\n{tail}", "4")["verdict"] == "RE"
    assert sandbox.stdio("raise ValueError", "")["verdict"] == "RE"
    assert sandbox.stdio("", "")["reward"] == 1


HELLO = {
    "python": "print(int(input()) * 2)",
    "bash": "read x; echo $((x * 2))",
    "javascript": "const s = require('fs').readFileSync(0); console.log(Number(s) * 2)",
    "c": "#include <stdio.h>\nint main(){int x; scanf(\"%d\", &x); printf(\"%d\\n\", x * 2);}",
    "cpp": "#include <iostream>\nint main(){int x; std::cin >> x; std::cout << x * 2;}",
}  # fmt: skip


@pytest.mark.parametrize("language", HELLO)
def test_languages(sandbox: Service, language: str) -> None:
    tests = [{"stdin": f"{at}\n", "expected": f"{2 * at}"} for at in range(3)]
    body = {"mode": "stdio", "code": HELLO[language], "language": language, "tests": tests}
    assert sandbox.execute(**body)["reward"] == 1
    wrong = {**body, "code": HELLO[language].replace("2", "3")}
    assert sandbox.execute(**wrong)["verdict"] == "WA"
    _, capabilities = sandbox.ask("GET", "/v1/capabilities")
    assert capabilities["languages"][language]
    assert ("pytest" in capabilities["modes"][language]) == (language == "python")


def test_what_does_not_compile(sandbox: Service) -> None:
    result = sandbox.stdio("int main( {", "", language="c")
    assert (result["verdict"], result["reward"], result["tests"]) == ("CE", 0, [])
    assert "error" in result["compilation"]["stderr"]


def test_other_languages_have_no_functions(sandbox: Service) -> None:
    result = sandbox.call("function f() { return 1 }", "f", [], 1, language="javascript")
    assert (result["verdict"], result["reward"]) == ("UNSUPPORTED", None)


def test_a_file_adds_languages(folder: Path) -> None:
    table = folder / "languages.toml"
    table.write_text(
        '[sed]\nsource = "main.sed"\nrun = ["sed", "-f", "main.sed"]\n'
        'version = ["sed", "--version"]\n'
    )
    with serving(folder, *UNSAFE, "--languages", str(table)) as service:
        assert service.stdio("s/a/b/g", "bnbnb", "anana", language="sed")["reward"] == 1


def test_probes(sandbox: Service) -> None:
    assert sandbox.ask("GET", "/healthz") == (200, {"status": "ok"})
    assert sandbox.ask("GET", "/readyz") == (200, {"ready": True})
    status, capabilities = sandbox.ask("GET", "/v1/capabilities")
    assert status == 200
    assert (capabilities["tier"], capabilities["slots"]) == ("namespaces", 2)
    assert capabilities["self_test"]["passed"] is True
    assert {"wall", "cpu", "memory", "network"} <= set(capabilities["enforces"])


def test_metrics_count_what_was_judged(sandbox: Service) -> None:
    def counted() -> float:
        _, text = sandbox.ask("GET", "/metrics")
        line = 'sandbox_submissions_total{mode="stdio",verdict="WA"} '
        return sum(float(row[len(line) :]) for row in text.splitlines() if row.startswith(line))

    before = counted()
    sandbox.stdio("print(5)", "4")
    assert counted() == before + 1


def test_a_token_guards_the_service(folder: Path) -> None:
    (folder / "token").write_text("secret\n")
    options = (*UNSAFE, "--token-file", str(folder / "token"))
    with serving(folder, *options, env={"SANDBOX_TOKEN": "another"}, token="secret") as service:
        assert service.stdio("print(4)", "4")["reward"] == 1
        for token in ("", "Bearer", "Bearer wrong", "secret"):
            for path in ("/v1/capabilities", "/readyz", "/metrics", "/openapi.json"):
                assert service.ask("GET", path, Authorization=token)[0] == 401
            assert service.ask("POST", "/v1/execute", RIGHT, Authorization=token)[0] == 401
        assert service.ask("GET", "/healthz", Authorization="")[0] == 200
        assert "/v1/execute" in service.ask("GET", "/openapi.json")[1]["paths"]
        assert {service.ask("GET", path)[0] for path in ("/docs", "/redoc")} == {404}


def test_overload_is_told_and_changes_no_verdict(folder: Path) -> None:
    """Ten times what there is room for: 429s, and everything taken in is judged rightly."""
    options = (*UNSAFE, "--slots", "2", "--queue", "4")
    with serving(folder, *options) as service, ThreadPoolExecutor(60) as pool:

        def hand_in(at: int) -> tuple[int, Any]:
            body = {**RIGHT, "id": str(at), "limits": {"cpu_s": 5}}
            return service.ask("POST", "/v1/execute", body)

        replies = list(pool.map(hand_in, range(60)))
        assert {status for status, _ in replies} == {200, 429}
        assert {content["verdict"] for status, content in replies if status == 200} == {"OK"}
        assert service.stdio("print(4)", "4")["reward"] == 1


def post(service: Service, body: dict[str, Any]) -> socket.socket:
    """A connection that has sent a submission and awaits the answer."""
    content = json.dumps(body).encode()
    connection = socket.create_connection(("127.0.0.1", service.port), timeout=30)
    head = f"POST /v1/execute HTTP/1.1\r\nHost: x\r\nContent-Length: {len(content)}\r\n\r\n"
    connection.sendall(head.encode() + content)
    return connection


def held(service: Service) -> Callable[[], float]:
    def count() -> float:
        _, text = service.ask("GET", "/metrics")
        rows = [row for row in text.splitlines() if row.startswith("sandbox_submissions_held ")]
        return float(rows[0].split()[1])

    return count


def test_a_client_that_leaves_stops_its_program(sandbox: Service) -> None:
    count = held(sandbox)
    sleeper = {**RIGHT, "id": "sleeper", "code": "import time; time.sleep(100)"}
    connection = post(sandbox, {**sleeper, "limits": {"wall_s": 100}})
    assert eventually(lambda: count() == 1)
    connection.close()
    assert eventually(lambda: count() == 0)


def test_sigterm_finishes_what_is_under_way(folder: Path) -> None:
    with serving(folder, *UNSAFE) as service:
        count = held(service)
        slow = {**RIGHT, "id": "slow", "code": "import time; time.sleep(1); print(4)"}
        connection = post(service, slow)
        assert eventually(lambda: count() == 1)
        service.process.send_signal(signal.SIGTERM)
        reply = b""
        while piece := connection.recv(65536):
            reply += piece
        assert b'"verdict":"OK"' in reply
        assert service.process.wait(timeout=20) == 0


@pytest.mark.parametrize(
    ("options", "code", "says"),
    [
        (("--tier", "process"), 2, "--allow-unsafe"),
        (("--tier", "magic"), 2, "docker, namespaces, process"),
        (("--slots", "1"), 2, "slots"),
        (("--host", "0.0.0.0"), 2, "SANDBOX_TOKEN"),
        (("--languages", "nowhere.toml"), 2, "nowhere.toml"),
        (("--token-file", "nowhere"), 2, "token file nowhere cannot be read"),
        (("--token-file", "/dev/null"), 2, "is empty"),
        (("--image", "x"), 2, "option of the tier docker"),
        (("--tier", "docker", "--interpreter", "x"), 2, "option of the tier namespaces"),
        (("--interpreter", "/no/python"), 4, "/no/python"),
        (("--tier", "docker"), 4, "no Docker daemon answers"),
        (("--nonsense",), 2, "nonsense"),
    ],
)
def test_wrong_options_end_in_one_line(
    options: tuple[str, ...],
    code: int,
    says: str,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """In this process, as starting one takes longest; that none is served is seen to."""
    monkeypatch.setattr(serve, "_bind", _not_refused)
    monkeypatch.setenv("SANDBOX_TOKEN", "")
    monkeypatch.setenv("DOCKER_HOST", "unix:///nowhere/docker.sock")
    monkeypatch.setattr(sys, "argv", ["sandbox", "serve", "--port", "0", *options])
    assert main() == code
    errors = capsys.readouterr().err
    assert says in errors
    assert len(errors.splitlines()) == 1


def _not_refused(*_: object) -> None:
    raise AssertionError("the options were not refused")


def test_a_port_in_use_is_told(folder: Path, sandbox: Service) -> None:
    process = start(folder, "--port", str(sandbox.port))
    _, errors = process.communicate(timeout=60)
    assert (process.returncode, "in use" in errors) == (4, True)
    assert len(errors.splitlines()) == 1


def result_of(*verdicts: Any, total: int | None = None) -> Any:
    tests = [TestResult(id=str(at), verdict=verdict) for at, verdict in enumerate(verdicts)]
    return summed("s", "t", tests, len(tests) if total is None else total, 0.0)


@pytest.mark.parametrize(
    ("verdicts", "total", "verdict", "reward"),
    [
        (["OK", "OK"], 2, "OK", 1), (["OK"], 2, "UNSUPPORTED", None), ([], 0, "UNSUPPORTED", None),
        (["OK", "WA", "RE"], 3, "WA", 0), (["OK", "WA", "IE"], 3, "IE", None),
        (["UNSUPPORTED", "WA"], 2, "WA", 0), (["OK", "UNSUPPORTED"], 2, "UNSUPPORTED", None),
    ],
)  # fmt: skip
def test_a_reward_is_for_all_tests(
    verdicts: list[str], total: int, verdict: str, reward: int | None
) -> None:
    result = result_of(*verdicts, total=total)
    assert (result.verdict, result.reward) == (verdict, reward)
    assert result.retryable == (verdict == "IE")
