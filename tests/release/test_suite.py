"""The release suite passes what is right; each thing done wrong fails the check that names it."""

import socket
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest

from posttrain.release.check import Result
from posttrain.release.core import stop_text
from posttrain.release.endpoint import Endpoint, Gone, Unanswered
from posttrain.release.probe import Probe
from posttrain.release.suite import CHECKS, GROUPS, Report, chosen, identity, run
from tests.release.conftest import Served
from tests.release.fake import MODEL

FAULTS = {
    "not well": "health",
    "model is not listed": "model-listed",
    "max_tokens ignored": "max-tokens",
    "cut is called stop": "max-tokens",
    "stop ignored": "stop-text",
    "usage does not add up": "usage-totals",
    "not deterministic": "determinism",
    "seed ignored": "seeded-sampling",
    "never samples": "sampling",
    "template leaks": "no-template-leak",
    "one choice": "choices",
    "no logprobs": "logprobs",
    "not the likeliest": "logprobs",
    "heeds nothing": "system-heeded",
    "repeats itself": "no-degeneration",
    "never ends": "ends-by-itself",
    "begin twice": "one-begin-in-chat",
    "begin twice before raw text": "one-begin-in-raw-text",
    "begin added to rendered text": "one-begin-in-rendered-text",
    "generated from other ids": "generation-ids-are-tokenize-ids",
    "turn opened otherwise": "turn-opened-as-rendered",
    "a marker is several tokens": "markers-are-single-ids",
    "two markers share an id": "markers-keep-their-identity",
    "a marker reads otherwise": "markers-keep-their-identity",
    "end marker does not end": "end-marker-ends",
    "end is read": "end-marker-ends",
    "end behind the prompt": "end-not-appended",
    "end behind raw text": "end-not-appended",
    "rendered prompts go on": "rendered-prompt-stops",
    "history left open": "history-is-closed",
    "all in one piece": "stream-chunks",
    "stream never finishes": "stream-finish",
    "stream breaks off": "stream-closed",
    "events of several answers": "stream-events",
    "stream has no role": "stream-role",
    "stream loses a piece": "stream-is-answer",
    "stream does not stop": "stream-stop",
    "no usage in the stream": "stream-usage",
    "demands ignored": "tool-required",
    "another tool than named": "tool-named",
    "arguments against the schema": "tool-schema",
    "null for no arguments": "tool-empty-arguments",
    "calls share an id": "tool-call-ids",
    "calls end with stop": "tool-finish",
    "call is read too": "tool-no-scaffold",
    "none ignored": "tool-choice-none",
    "calls undeclared tools": "tool-undeclared",
    "undeclared tool can be demanded": "tool-unknown-choice",
    "streamed arguments are cut": "tool-streamed",
    "tools not shown": "tool-shown",
    "tool output dropped": "tool-output",
    "calls no tool": "tool-single",
    "one call for two": "tool-parallel",
    "turns reversed": "turns-in-order",
    "roles ignored": "turns-by-role",
    "breaks after many turns": "many-turns",
    "thoughts are read as the answer": "reasoning-wired",
    "marks in the thoughts": "reasoning-clean",
    "cut thoughts are the answer": "reasoning-cut",
    "answer before thoughts": "reasoning-stream-order",
    "thinks unasked": "reasoning-disabled",
    "thinks though declined": "reasoning-declined",
    "spelled markers are control": "spelled-markers",
    "texts in latin": "scripts",
    "breaks at half a JSON": "malformed",
    "no messages are answered": "no-messages",
    "any model is served": "unknown-model",
    "any value is taken": "wrong-values",
    "breaks at an unknown role": "unknown-role",
    "long prompts are cut": "too-long",
}
"""What the fake does wrong -> the check that must tell."""


def outcomes(report: Report) -> dict[str, Result]:
    return {result.name: result for result in report.results}


def test_what_is_right_passes_every_check(served: Served) -> None:
    report = run(served.probe(), CHECKS, within=120)
    told = [result for result in report.results if result.outcome not in ("pass", "skip")]
    assert told == []
    assert report.passed
    skipped = {result.group for result in report.results if result.outcome == "skip"}
    assert skipped == {"multimodal"}
    assert len(report.results) == len(CHECKS) >= 65


@pytest.mark.parametrize(("fault", "name"), FAULTS.items())
def test_what_is_wrong_is_named(fault: str, name: str, served: Served) -> None:
    checks = [check for check in CHECKS if check.name == name]
    [found] = run(served.probe(fault), checks, within=60).results
    assert found.outcome == ("warn" if name in ("sampling", "spelled-markers") else "fail")
    assert found.reason


def test_the_same_is_found_again(served: Served) -> None:
    runs = [run(served.probe("calls end with stop"), CHECKS, within=120) for _ in range(2)]
    found = [[(r.name, r.outcome, r.reason) for r in each.results[:-1]] for each in runs]
    assert found[0] == found[1]


def test_names_are_used_once_and_groups_are_known() -> None:
    assert len({check.name for check in CHECKS}) == len(CHECKS)
    assert sum(len(chosen([group])) for group in GROUPS) == len(CHECKS)
    assert all(check.run.__doc__ or check.group == "multimodal" for check in CHECKS)
    assert identity()["checks"] == len(CHECKS)
    with pytest.raises(ValueError, match="unknown group 'cores'; known groups: core"):
        chosen(["cores"])


def test_what_is_about_the_model_can_be_told_apart(served: Served) -> None:
    checks = [check for check in CHECKS if check.name in ("tool-single", "tool-required")]
    for how, outcome in (("fail", "fail"), ("warn", "warn"), ("skip", "skip")):
        report = run(served.probe("calls no tool"), checks, model_checks=how)  # type: ignore[arg-type]
        assert outcomes(report)["tool-single"].outcome == outcome
        assert outcomes(report)["tool-required"].outcome == "pass"


def test_what_there_is_no_time_for_has_failed(served: Served) -> None:
    report = run(served.probe(), chosen(["core"]), within=1e-9)
    assert {result.outcome for result in report.results} == {"fail"}
    assert "not made within" in report.results[0].reason


@contextmanager
def dying(after: int) -> Iterator[str]:
    """An endpoint that answers `after` connections with rubbish, then listens no more."""
    listener = socket.create_server(("127.0.0.1", 0))

    def serve() -> None:
        for _ in range(after):
            connection, _ = listener.accept()
            connection.recv(65536)
            connection.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n{}")
            connection.close()
        listener.close()

    thread = threading.Thread(target=serve, daemon=True)
    thread.start()
    yield f"http://127.0.0.1:{listener.getsockname()[1]}/v1"
    thread.join(5)


def test_an_endpoint_that_goes_away_fails_the_run(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("posttrain.release.endpoint._BEFORE_GONE", 0.01)
    with dying(after=3) as url:
        report = run(Probe(Endpoint(url, MODEL, patience=2)), CHECKS)
    assert report.lost is not None
    assert "is gone" in report.lost
    assert not report.passed
    assert len(report.results) < report.planned
    assert report.told()["lost"] == report.lost


def test_an_answer_that_never_comes_fails_its_check_alone(served: Served) -> None:
    probe = served.probe("health never comes")
    probe.endpoint.patience = 0.2
    [found] = run(probe, [check for check in CHECKS if check.name == "health"]).results
    assert found.outcome == "fail"
    assert "/health was not answered" in found.reason


class Dripping(BaseHTTPRequestHandler):
    """Sends a byte now and then for ever, but for /models, which it answers."""

    def do_GET(self) -> None:
        self.send_response(200)
        self.end_headers()
        with suppress(OSError):
            while not self.path.endswith("/models"):
                self.wfile.write(b" ")
                time.sleep(0.05)

    do_POST = do_GET

    def log_message(self, *told: object) -> None:
        """Nothing is printed."""


def test_an_answer_that_drips_for_ever_is_given_no_more_than_the_patience() -> None:
    with ThreadingHTTPServer(("127.0.0.1", 0), Dripping) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        endpoint = Endpoint(f"http://127.0.0.1:{server.server_port}/v1", MODEL, patience=0.3)
        with pytest.raises(Unanswered, match="/health was not answered"):
            endpoint.beside("/health")
        with pytest.raises(Unanswered, match="/chat/completions was not answered"):
            endpoint.stream("/chat/completions", {})
        server.shutdown()


def test_nothing_but_skips_is_no_pass(served: Served) -> None:
    report = run(served.probe(), chosen(["multimodal"]))
    assert {result.outcome for result in report.results} == {"skip"}
    assert not report.passed


def test_a_url_that_is_none_is_refused() -> None:
    with pytest.raises(ValueError, match=r"no URL of an endpoint; write http://HOST:PORT/v1"):
        Endpoint("ftp://there", MODEL)
    for port in ("99999", "0", "eighty"):  # A wrong port is no fault of the model's.
        with pytest.raises(ValueError, match=r"no URL of an endpoint; write http://HOST:PORT/v1"):
            Endpoint(f"http://127.0.0.1:{port}/v1", MODEL)


def test_nobody_at_an_address_is_gone(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("posttrain.release.endpoint._BEFORE_GONE", 0.01)
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
    with pytest.raises(Gone, match=r"is gone: .*refused"):
        Endpoint(f"127.0.0.1:{port}/v1", MODEL).get("/models")


@pytest.mark.parametrize(
    ("text", "piece"),
    [
        ("a lake in winter", "n w"),
        ("a lake in\ufffd\ufffd winter", "ke "),
        ("two\ufffd words", None),
    ],
)
def test_a_text_to_stop_at_is_from_what_is_whole(text: str, piece: str | None) -> None:
    assert stop_text(text) == piece
