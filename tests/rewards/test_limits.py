"""What the service refuses, and how it says so; who may ask at all."""

import json
import socket
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from rewards.front import BODY
from tests.rewards.service import FAULTY, Service, faulty_item, serving
from tests.rewards.test_process import run
from tests.waiting import eventually

TOKEN = "s3cret"
ITEM = json.dumps(faulty_item("pass")).encode()


@pytest.fixture(scope="module")
def guarded(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Service]:
    """A small service with a token: one worker, and one item may wait."""
    folder = tmp_path_factory.mktemp("guarded")
    (folder / "token").write_text(f"{TOKEN}\n")
    options = ("--verifiers", FAULTY, "--workers", "1", "--queue", "1")
    with serving(folder, *options, "--token-file", str(folder / "token"), token=TOKEN) as running:
        yield running


@pytest.mark.parametrize(
    ("method", "path"),
    [("POST", "/v1/score"), ("GET", "/metrics"), ("GET", "/readyz"), ("GET", "/v1/verifiers"),
     ("GET", "/openapi.json"), ("GET", "/nowhere")],
)  # fmt: skip
@pytest.mark.parametrize("given", ["", "Bearer", "Bearer s3cre", "Bearer s3cret ", "Basic s3cret"])
def test_without_the_token_nothing_is_told(
    guarded: Service, method: str, path: str, given: str
) -> None:
    reply = guarded.exchange(method, path, ITEM, authorization=given)
    assert reply.status == 401
    assert reply.headers["www-authenticate"] == "Bearer"
    assert json.loads(reply.body) == {"detail": "give the token: `Authorization: Bearer ...`"}


def test_with_the_token_all_is_open_and_health_always(guarded: Service) -> None:
    assert guarded.exchange("GET", "/healthz", authorization="").status == 200
    assert guarded.ask("GET", "/v1/verifiers")[0] == 200
    assert guarded.faulty("pass")[0]["score"] == 1.0


@pytest.mark.parametrize("host", ["0.0.0.0", "::", "203.0.113.1"])
def test_others_than_loopback_need_a_token(host: str) -> None:
    ended = run("serve", "--port", "0", "--host", host)
    assert ended.returncode == 2
    assert "can be reached by others: give --token-file" in ended.stderr


@pytest.mark.parametrize("content", [None, " \n"])
def test_a_token_file_without_a_token_is_refused(tmp_path: Path, content: str | None) -> None:
    path = tmp_path / "token"
    if content is not None:
        path.write_text(content)
    ended = run("serve", "--port", "0", "--token-file", str(path))
    assert ended.returncode == 2
    assert str(path) in ended.stderr
    assert "Traceback" not in ended.stderr


def test_a_full_queue_asks_for_patience(guarded: Service) -> None:
    """One nap runs, one is ahead, one waits: the fourth is refused, and counted."""
    guarded.faulty("nap")  # A worker known to be slow is sent little ahead.
    statuses: list[int] = []

    def nap(name: str) -> None:
        body = json.dumps({**faulty_item("nap"), "id": name, "parameters": {"n": name}}).encode()
        reply = guarded.exchange("POST", "/v1/score", body)
        statuses.append(reply.status)
        if reply.status == 429:
            assert int(reply.headers["retry-after"]) >= 1
            assert "queue is full" in json.loads(reply.body)["detail"]

    naps = [threading.Thread(target=nap, args=(str(n),)) for n in range(12)]
    for thread in naps:
        thread.start()
    for thread in naps:
        thread.join(30)
    assert set(statuses) == {200, 429}
    assert guarded.counted("rewards_items_refused_total") == statuses.count(429)
    assert guarded.faulty("pass")[0]["score"] == 1.0


def test_a_request_larger_than_the_queue_is_not_stuck(guarded: Service) -> None:
    items = [{**faulty_item("pass"), "id": str(n), "gold": n} for n in range(20)]
    assert eventually(lambda: guarded.ask("POST", "/v1/score", {"items": items})[0] == 200)


def test_a_body_too_large_is_refused_by_its_length(guarded: Service) -> None:
    for length in (str(BODY + 1), "-1", "many"):
        with socket.create_connection(("127.0.0.1", guarded.port), timeout=10) as client:
            head = f"POST /v1/score HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer {TOKEN}\r\n"
            client.sendall(f"{head}Content-Length: {length}\r\n\r\n".encode())
            assert client.recv(4096).split()[1] in {b"413", b"400"}


def test_a_body_too_large_is_refused_in_chunks(guarded: Service) -> None:
    with socket.create_connection(("127.0.0.1", guarded.port), timeout=10) as client:
        head = f"POST /v1/score HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer {TOKEN}\r\n"
        client.sendall(f"{head}Transfer-Encoding: chunked\r\n\r\n".encode())
        chunk = b"100000\r\n" + b"x" * 2**20 + b"\r\n"
        try:
            for _ in range(BODY // 2**20 + 1):
                client.sendall(chunk)
        except ConnectionError:
            pass  # It need not listen to all of it.
        assert client.recv(4096).split()[1] == b"413"


def test_another_medium_or_method_is_refused(guarded: Service) -> None:
    reply = guarded.exchange("POST", "/v1/score", ITEM, content_type="text/plain")
    assert (reply.status, b"application/json or application/msgpack" in reply.body) == (415, True)
    reply = guarded.exchange("GET", "/v1/score")
    assert (reply.status, reply.headers["allow"]) == (405, "POST")


def test_a_connection_dropped_in_the_middle_of_a_body_harms_nobody(guarded: Service) -> None:
    for _ in range(20):
        with socket.create_connection(("127.0.0.1", guarded.port), timeout=10) as client:
            head = f"POST /v1/score HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer {TOKEN}\r\n"
            client.sendall(f"{head}Content-Length: 500\r\n\r\n{{".encode())
    assert guarded.faulty("pass")[0]["score"] == 1.0
