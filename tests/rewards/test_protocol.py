"""Requests answered as soon as they are read, and others: a client sees no difference."""

import asyncio
import json
import socket
from collections.abc import Iterator, Mapping
from contextlib import closing, contextmanager
from http.client import HTTPResponse
from typing import Any, cast

import pytest
from uvicorn import Config
from uvicorn.server import ServerState

from rewards.arrivals import Arrivals
from rewards.cache import Cache
from rewards.front import Front
from rewards.metrics import Metrics
from rewards.protocol import Protocol
from rewards.scorer import Route, Scorer
from rewards.verifiers.answer import verify
from tests.rewards.service import Service
from tests.rewards.test_at_once import Wire

RIGHT = {"id": "right", "verifier": "answer", "answers": ["4"], "gold": ["4"]}
WRONG = {"id": "wrong", "verifier": "answer", "answers": ["5"], "gold": ["4"]}
IN_WORKER = {"id": "slow", "verifier": "math", "response": "4", "gold": "4"}


def request(
    body: Any, version: str = "1.1", headers: Mapping[str, str] | None = None, method: str = "POST"
) -> bytes:
    raw = body if isinstance(body, bytes) else json.dumps(body).encode()
    named = {"Host": "localhost", "Content-Length": str(len(raw))} | dict(headers or {})
    lines = [f"{method} /v1/score HTTP/{version}", *(f"{k}: {v}" for k, v in named.items()), "", ""]
    return "\r\n".join(lines).encode() + raw


@contextmanager
def connected(service: Service) -> Iterator[socket.socket]:
    with socket.create_connection(("127.0.0.1", service.port), timeout=30) as connection:
        yield connection


def reply(connection: socket.socket) -> tuple[int, Any]:
    """Status and content of the next one; what is read beyond it is lost."""
    with closing(HTTPResponse(connection)) as response:
        response.begin()
        return response.status, json.loads(response.read())


def scores(content: tuple[int, Any]) -> list[float]:
    status, found = content
    assert status == 200, found
    return [verdict["score"] for verdict in found["verdicts"]]


@pytest.mark.parametrize(
    ("body", "expected"),
    [(RIGHT, [1.0]), ({"items": [RIGHT, WRONG, IN_WORKER]}, [1.0, 0.0, 1.0]), ({"id": 3}, 422),
     (b"{", 422)],
)  # fmt: skip
@pytest.mark.parametrize("size", [1, 20, 10_000])
def test_a_request_may_come_in_pieces(
    service: Service, body: Any, expected: Any, size: int
) -> None:
    raw = request(body)
    with connected(service) as connection:
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        for at in range(0, len(raw), size):
            connection.sendall(raw[at : at + size])
        status, found = reply(connection)
    given = status if status != 200 else [verdict["score"] for verdict in found["verdicts"]]
    assert given == expected


def test_replies_come_in_the_order_of_their_requests(service: Service) -> None:
    """A quick check does not overtake a slow one on the same connection."""
    requests = [request(body) for body in (RIGHT, IN_WORKER, WRONG, {"id": 3})]
    with connected(service) as connection:
        connection.sendall(b"".join(requests) + request(RIGHT, headers={"Connection": "close"}))
        received = b"".join(iter(lambda: connection.recv(65536), b""))
    found = [json.loads(b"{" + part.partition(b"\r\n\r\n{")[2]) for part in
             received.split(b"HTTP/1.1 ")[1:]]  # fmt: skip
    names = [one["verdicts"][0]["id"] if "verdicts" in one else "refused" for one in found]
    assert names == ["right", "slow", "wrong", "refused", "right"]


@pytest.mark.parametrize(("version", "headers"), [("1.0", {}), ("1.1", {"Connection": "close"})])
def test_the_connection_ends_where_the_client_says_so(
    service: Service, version: str, headers: Mapping[str, str]
) -> None:
    with connected(service) as connection:
        connection.sendall(request(RIGHT, version, headers))
        assert scores(reply(connection)) == [1.0]
        assert connection.recv(1) == b""


def test_a_connection_serves_one_request_after_the_other(service: Service) -> None:
    with connected(service) as connection:
        for body, score in [(RIGHT, 1.0), (IN_WORKER, 1.0), (WRONG, 0.0), (RIGHT, 1.0)]:
            connection.sendall(request(body))
            assert scores(reply(connection)) == [score]


def test_a_client_that_asks_first_is_told_to_go_on(service: Service) -> None:
    raw = request(RIGHT, headers={"Expect": "100-continue"})
    head, body = raw.split(b"\r\n\r\n")
    with connected(service) as connection:
        connection.sendall(head + b"\r\n\r\n")
        assert connection.recv(100) == b"HTTP/1.1 100 Continue\r\n\r\n"
        connection.sendall(body)
        assert scores(reply(connection)) == [1.0]


def test_an_upgrade_is_not_offered(service: Service) -> None:
    """Where a library for it was installed, a POST that asked for one was never answered."""
    asked = {
        "Connection": "Upgrade", "Upgrade": "websocket", "Sec-WebSocket-Version": "13",
        "Sec-WebSocket-Key": "dGhlIHNhbXBsZSBub25jZQ==",
    }  # fmt: skip
    for method, status in [("GET", 405), ("POST", 422)]:
        with connected(service) as connection:
            connection.sendall(request(b"", headers=asked, method=method))
            assert reply(connection)[0] == status


def test_every_way_counts_once(service: Service) -> None:
    def counts() -> list[float]:
        return [
            service.counted("rewards_requests_total"),
            service.counted("rewards_verdicts_total", verifier="answer"),
            service.counted("rewards_check_seconds_count", verifier="answer"),
            service.counted("rewards_total_seconds_count", verifier="answer"),
        ]

    before = counts()
    raw = request({"items": [RIGHT, WRONG]})
    with connected(service) as connection:
        for parts in ([raw], [raw[:30], raw[30:]]):
            for part in parts:
                connection.sendall(part)
            assert scores(reply(connection)) == [1.0, 0.0]
    assert [after - known for after, known in zip(counts(), before, strict=True)] == [2, 4, 4, 4]


class Served:
    """As much of a service as scoring needs."""

    scorer: Scorer | None = None


async def nothing(*_: Any) -> None: ...


def front(served: Served, token: str | None = None) -> Front:
    return Front(nothing, cast(Any, served), Metrics(), Arrivals(60), token)


def scorer() -> Scorer:
    return Scorer({"answer": Route("digest", cast(Any, None), verify)}, Cache(1), Metrics())


def test_a_whole_request_takes_no_task() -> None:
    served = Served()
    served.scorer = scorer()
    config = Config(front(served), http=Protocol, proxy_headers=False, log_level="warning")

    async def sent(*parts: bytes) -> tuple[int, bytes]:
        protocol, wire = Protocol(config, ServerState(), {}), Wire()
        protocol.connection_made(wire)
        for part in parts:
            protocol.data_received(part)
        begun = len(protocol.tasks)
        await asyncio.gather(*protocol.tasks)
        await asyncio.sleep(0)
        return begun, wire.sent

    raw = request(RIGHT)
    begun, reply = asyncio.run(sent(raw))
    assert begun == 0
    assert b'"score":1.0' in reply
    assert asyncio.run(sent(raw[:50], raw[50:])) == (0, reply)
    assert asyncio.run(sent(raw[:-9], raw[-9:])) == (1, reply)


def test_no_reply_is_given_at_once_without_the_token() -> None:
    """Nor while the verifiers are not there, nor for a body that is wrong."""
    served = Served()
    guarded = front(served, "token")
    allowed, body = {b"authorization": b"Bearer token"}, json.dumps(RIGHT).encode()
    assert guarded.at_once(allowed, body) is None
    served.scorer = scorer()
    assert guarded.at_once({}, body) is None
    assert guarded.at_once({b"authorization": b"Bearer t"}, body) is None
    assert guarded.at_once(allowed, b"{") is None
    assert guarded.at_once(allowed | {b"content-type": b"text/plain"}, body) is None
    found = guarded.at_once(allowed, body)
    assert found is not None
    assert json.loads(found[0])["verdicts"][0]["score"] == 1.0
