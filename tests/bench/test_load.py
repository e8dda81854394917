"""The load that is measured with: every body arrives, and what is not 200 is told apart."""

import json
import threading
from collections import Counter
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from tests.bench import mix
from tests.bench.load import load

SEEN: Counter[bytes] = Counter()


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers["Content-Length"]))
        SEEN[body] += 1
        self.send_response(429 if body == b'"busy"' else 200)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: object) -> None:
        """Stay silent."""


@pytest.fixture
def url() -> Iterator[str]:
    SEEN.clear()
    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        yield f"http://127.0.0.1:{server.server_port}/v1/score"
        server.shutdown()
        thread.join(10)


def test_each_body_is_sent_once(url: str, tmp_path: Path) -> None:
    bodies = [json.dumps("x" * size).encode() for size in range(0, 50_000, 1_000)]
    found = load(url, bodies, tmp_path, connections=3)
    assert (found.requests, found.refused) == (50, 0)
    assert dict.fromkeys(bodies, 1) == SEEN
    assert 0 < found.p50 <= found.p99 <= 1000 * found.seconds


def test_refusals_are_not_counted_as_requests(url: str, tmp_path: Path) -> None:
    found = load(url, [b'"busy"', b'"fine"', b'"busy"'], tmp_path, connections=1)
    assert (found.requests, found.refused) == (1, 2)


def test_bodies_come_round_until_the_time_is_up(url: str, tmp_path: Path) -> None:
    found = load(url, [b'"a"', b'"b"'], tmp_path, connections=2, seconds=0.3)
    assert found.requests == sum(SEEN.values()) > 2
    assert found.seconds >= 0.3


@pytest.mark.parametrize("draw", [mix.numbers, mix.mixed, mix.pathological, mix.answers])
def test_no_item_of_a_mix_comes_twice(draw: object) -> None:
    assert callable(draw)
    items = [*draw(1, 200), *draw(2, 200)]
    assert len({item.id for item in items}) == 400
    assert len({(item.gold, item.response) for item in items}) == 400


def test_one_in_twenty_is_pathological() -> None:
    assert sum("endless" in item.id for item in mix.pathological(3, 200)) == 10
