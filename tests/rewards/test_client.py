"""The clients against real services, full, dead, broken and slow ones."""

import asyncio
import re
import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path

import pytest

from rewards.client import BlockingRewardClient, RewardClient
from rewards.schema import Item, Verdict
from tests.rewards.service import FAULTY, Service, serving
from tests.waiting import eventually


def answer(name: str, given: str) -> Item:
    return Item(id=name, verifier="answer", answers=[given], gold=["42"])


def faulty(deed: str) -> Item:
    return Item(id=deed, verifier="faulty", response=deed)


async def scores(url: str, items: list[Item], patience: float = 20.0) -> list[Verdict]:
    async with RewardClient(url, patience=patience, timeout=10, batch=7) as client:
        return await client.score(items)


@contextmanager
def replying(status: int, body: bytes) -> Iterator[str]:
    """A server that gives every request the same reply."""

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            self.send_response(status)
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_: object) -> None:
            """Stay silent."""

    server = HTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}"
    finally:
        server.shutdown()
        thread.join(10)
        server.server_close()


def test_many_items_keep_their_order(service: Service) -> None:
    items = [answer(str(n), "42" if n % 3 else "41") for n in range(200)]
    verdicts = asyncio.run(scores(service.url, items))
    assert [v.id for v in verdicts] == [item.id for item in items]
    assert [v.score for v in verdicts] == [float(bool(n % 3)) for n in range(200)]


def test_no_items_no_verdicts(service: Service) -> None:
    assert asyncio.run(scores(service.url, [])) == []


def test_the_blocking_client_does_the_same(service: Service) -> None:
    with BlockingRewardClient(service.url) as client:
        assert client.ready()
        assert [v.score for v in client.score([answer("a", "42")])] == [1.0]
        assert [v.score for v in client.score([answer("b", "41")])] == [0.0]


def test_nobody_there_is_failed_and_no_score() -> None:
    with socket.create_server(("127.0.0.1", 0)) as closed:
        url = f"http://127.0.0.1:{closed.getsockname()[1]}"
    verdicts = asyncio.run(scores(url, [answer("a", "42"), answer("b", "42")], patience=0.3))
    assert [(v.status, v.score) for v in verdicts] == [("failed", None)] * 2
    assert verdicts[0].reason == "unreachable"
    with BlockingRewardClient(url) as client:
        assert not client.ready()


@pytest.mark.parametrize(
    ("status", "body", "reason"),
    [
        (500, b"oops", "protocol"),
        (404, b"", "protocol"),
        (503, b"", "overload"),
        (429, b"", "overload"),
        (302, b"", "protocol"),
        (200, b"1.0", "protocol"),
        (200, b'{"verdicts": []}', "protocol"),
        (200, b'{"verdicts": [{"id": "a", "verifier": "answer", "score": 1.0}]}', "protocol"),
        (
            200,
            b'{"verdicts": [{"id": "a", "verifier": "v", "status": "failed", "score": 1.0}]}',
            "protocol",
        ),
        (
            200,
            b'{"verdicts": [{"id": "b", "verifier": "v", "status": "scored", "score": 1.0}]}',
            "protocol",
        ),
    ],
)
def test_a_reply_that_is_none_is_failed(status: int, body: bytes, reason: str) -> None:
    with replying(status, body) as url:
        (verdict,) = asyncio.run(scores(url, [answer("a", "42")], patience=0.2))
    assert (verdict.status, verdict.score, verdict.reason) == ("failed", None, reason)


def test_a_refused_item_is_the_callers_error() -> None:
    with (
        replying(422, b'{"detail": "no"}') as url,
        pytest.raises(ValueError, match=r"refuses the item: .*no"),
    ):
        asyncio.run(scores(url, [answer("a", "42"), answer("b", "42")]))


def test_a_full_queue_refuses_then_lets_in(tmp_path: Path) -> None:
    """Of five requests of three items most find the queue full, and come again."""
    with serving(tmp_path, "--verifiers", FAULTY, "--queue", "1", "--workers", "1") as service:
        naps = [faulty("nap").model_copy(update={"id": str(n), "gold": n}) for n in range(15)]

        async def crowd() -> list[Verdict]:
            lots = (naps[at : at + 3] for at in range(0, 15, 3))
            parts = await asyncio.gather(*(scores(service.url, lot, 60.0) for lot in lots))
            return [verdict for part in parts for verdict in part]

        assert [(v.status, v.score) for v in asyncio.run(crowd())] == [("scored", 1.0)] * 15
        _, text = service.ask("GET", "/metrics")
        refused = re.search(r"^rewards_items_refused_total (.*)$", text, re.MULTILINE)
        assert refused is not None
        assert float(refused[1]) >= 3


def test_of_two_services_one_killed_under_load_the_other_finishes(tmp_path: Path) -> None:
    folders = [tmp_path / name for name in ("one", "two")]
    for folder in folders:
        folder.mkdir()
    options = ("--verifiers", "answer", "--workers", "1")
    with serving(folders[0], *options) as one, serving(folders[1], *options) as two:

        async def load() -> list[Verdict]:
            async with RewardClient([one.url, two.url], batch=2, connections=8) as client:
                items = [answer(str(n), "42") for n in range(900)]
                alone = [asyncio.create_task(client.score([item])) for item in items]
                await asyncio.wait(alone[:100])
                one.process.kill()
                return [verdict for (verdict,) in await asyncio.gather(*alone)]

        verdicts = asyncio.run(load())
        assert [(v.id, v.score) for v in verdicts] == [(str(n), 1.0) for n in range(900)]
        assert one.process.wait(10) != 0


def test_a_service_that_comes_back_is_waited_for(tmp_path: Path) -> None:
    with serving(tmp_path, "--verifiers", "answer") as service:
        service.process.kill()
        service.process.wait(10)
    found: list[Verdict] = []

    def ask() -> None:
        found.extend(asyncio.run(scores(service.url, [answer("a", "42")], patience=60.0)))

    asking = threading.Thread(target=ask)
    asking.start()
    with serving(tmp_path, "--verifiers", "answer", "--port", str(service.port)):
        assert eventually(lambda: not asking.is_alive())
    assert [(v.status, v.score) for v in found] == [("scored", 1.0)]
