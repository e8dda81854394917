"""A request answered at once and the same one that takes uvicorn's way: bytes and counts agree."""

import asyncio
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, cast

from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec import msgpack
from prometheus_client.parser import text_string_to_metric_families
from uvicorn import Config
from uvicorn.server import ServerState

from rewards.arrivals import Arrivals
from rewards.cache import Cache
from rewards.front import Front
from rewards.job import Job
from rewards.media import JSON, MSGPACK
from rewards.metrics import Metrics
from rewards.protocol import BESIDE, Protocol
from rewards.schema import Item, Verdict, scored
from rewards.scorer import Route, Scorer
from rewards.verifiers.answer import verify

TOKEN = "s3cret"


class Wire(asyncio.Transport):
    """Keeps what is sent, and that it is closed."""

    def __init__(self) -> None:
        super().__init__()
        self.sent = b""
        self.closed = False

    def write(self, data: Any) -> None:
        self.sent += data

    def close(self) -> None:
        self.closed = True

    def is_closing(self) -> bool:
        return self.closed

    def pause_reading(self) -> None: ...

    def resume_reading(self) -> None: ...


class Settled:
    """A place where each job has its verdict at once."""

    waiting = 0

    def has_room(self, jobs: int) -> bool:
        return jobs < 90

    def submit(self, jobs: Sequence[Job]) -> None:
        for job in jobs:
            job.settle(scored(job.item, 0.5))


def moody(item: Item) -> Verdict:
    """An inline verifier that some items are too much for."""
    if item.gold == "raise":
        raise KeyError(item.id)
    return Verdict(id="mine", verifier="mine", status="abstained", reason="mood")


@dataclass
class Host:
    """As much of a service as scoring needs; `by_task` offers nothing at once."""

    by_task: bool = False
    metrics: Metrics = field(default_factory=Metrics)

    def __post_init__(self) -> None:
        place = Settled()
        routes = {
            "answer": Route("a", place, verify), "moody": Route("b", place, moody),
            "worker": Route("c", place),
        }  # fmt: skip
        self.scorer = Scorer(routes, Cache(8), self.metrics)

    def front(self) -> Front:
        made = Front(refuse, cast(Any, self), self.metrics, Arrivals(60), TOKEN)
        if self.by_task:
            vars(made)["at_once"] = lambda *_: None
        return made

    def counts(self) -> Mapping[Any, float]:
        """What is counted, without how long anything took."""
        families = text_string_to_metric_families(self.metrics.text().decode())
        return {
            (sample.name, *sorted(sample.labels.items())): sample.value
            for family in families for sample in family.samples
            if not sample.name.endswith(("_sum", "_bucket"))
        }  # fmt: skip


async def refuse(scope: Any, receive: Any, send: Any) -> None:
    """The application behind the front."""
    await send({"type": "http.response.start", "status": 404, "headers": []})
    await send({"type": "http.response.body", "body": b"{}"})


@dataclass(frozen=True)
class Heard:
    """What a client gets, and what is counted; `tasks` is how many requests took one."""

    sent: bytes
    closed: bool
    counts: Mapping[Any, float]
    tasks: int = field(compare=False)


def opened(host: Host, **options: Any) -> tuple[Protocol, Wire]:
    """A new connection."""
    config = Config(
        host.front(), http=Protocol, ws="none", proxy_headers=False, log_level="critical", **options
    )
    protocol, wire = Protocol(config, ServerState(), {}), Wire()
    protocol.connection_made(wire)
    return protocol, wire


def heard(host: Host, *parts: bytes) -> Heard:
    """What comes of sending `parts`, one read each."""

    async def exchange() -> Heard:
        protocol, wire = opened(host)
        begun: set[Any] = set()
        for part in parts:
            if not wire.closed:
                protocol.data_received(part)
            begun |= protocol.tasks
        while protocol.tasks:
            begun |= protocol.tasks
            await asyncio.wait(set(protocol.tasks))
        await asyncio.sleep(0)
        found = Heard(wire.sent, wire.closed, host.counts(), len(begun))
        protocol.connection_lost(None)
        return found

    return asyncio.run(exchange())


TEXT = st.text(alphabet='a4 é\x00"{}\u2028😀', max_size=4)
LEAF = st.none() | st.booleans() | st.integers(-(2**70), 2**70) | st.floats() | TEXT
ANY = st.recursive(LEAF, lambda inner: st.lists(inner, max_size=2) | st.dictionaries(TEXT, inner))
ITEM = st.fixed_dictionaries(
    {
        "id": st.sampled_from(["a", "b", "é"]) | TEXT,
        "verifier": st.sampled_from(["answer", "answer", "moody", "worker", "none"]),
    },
    optional={
        "answers": st.lists(st.sampled_from(["4", "4.0", "x"]) | TEXT, max_size=2),
        "response": TEXT,
        "gold": st.sampled_from(["4", ["4"], {"all_of": ["4"]}, "raise"]) | ANY,
        "parameters": st.sampled_from([{}, {"normaliser": "strict"}, {"normaliser": "no"}]) | ANY,
    },
)
CHECKS = st.lists(
    st.builds(lambda name: {"verifier": name, "gold": "4"}, st.sampled_from(["answer", "worker"])),
    max_size=2,
)
COMPOSITE = st.builds(
    lambda checks: {"id": "c", "answers": ["4"], "checks": checks, "combine": "min"}, CHECKS
)
MANY = st.integers(60, 70).map(
    lambda n: [{"id": str(at), "verifier": "answer", "answers": ["4"], "gold": ["4"]}
               for at in range(n)]
)  # fmt: skip
CONTENT = st.one_of(
    ITEM, ITEM, ITEM, ANY,
    (st.lists(ITEM | ITEM | COMPOSITE, max_size=4) | MANY).map(lambda items: {"items": items}),
)  # fmt: skip


def in_json(content: Any) -> bytes:
    return json.dumps(content).encode()


def in_msgpack(content: Any) -> bytes:
    try:
        return msgpack.encode(content)
    except OverflowError:
        return b"\xc1"


BODY = st.one_of(
    st.tuples(st.just(JSON), CONTENT.map(in_json)),
    st.tuples(st.just(MSGPACK), CONTENT.map(in_msgpack)),
    st.tuples(st.sampled_from(["", "Application/JSON ; charset=x", "text/plain"]),
              CONTENT.map(in_json)),
    st.tuples(st.just(JSON), st.binary(max_size=20) | st.sampled_from(
        [b'{"id":"a","id":"b","verifier":"answer","answers":["4"],"gold":["4"]}',
         b'{"id":"\\ud800","verifier":"answer","answers":["4"],"gold":["4"]}',
         b'{"id":"a","verifier":"answer","answers":["4"],"gold":1e999}',
         b'{"items":[' + b"[" * 300])),
)  # fmt: skip
HEADERS = st.fixed_dictionaries(
    {"Authorization": st.sampled_from([f"Bearer {TOKEN}"] * 6 + ["", "Bearer", "bearer s3cret"])},
    optional={
        "Accept": st.sampled_from([JSON, MSGPACK, "*/*"]),
        "Connection": st.sampled_from(["keep-alive", "close", "Keep-Alive"]),
        "Cache-Control": st.just("no-cache"),
        "Expect": st.just("100-continue"),
    },
)


@st.composite
def requests(draw: st.DrawFn) -> tuple[bytes, bytes]:
    """A request in two parts, the second of them no more than the last of its body."""
    kind, body = draw(BODY)
    named = {"Host": "x", "Content-Type": kind, **draw(HEADERS)}
    method = draw(st.sampled_from(["POST"] * 8 + ["GET", "PUT"]))
    path = draw(st.sampled_from(["/v1/score"] * 8 + ["/v1/score?x=1", "/v1/scor%65", "/nowhere"]))
    version = draw(st.sampled_from(["1.1"] * 5 + ["1.0"]))
    if version == "1.1" and draw(st.booleans()):
        named["Transfer-Encoding"] = "chunked"
        chunk = b"%x\r\n%b\r\n" % (len(body), body) if body else b""
        body = chunk + b"0\r\n" + draw(st.sampled_from([b"", b"Authorization: x\r\n"])) + b"\r\n"
    else:
        named["Content-Length"] = str(len(body))
    lines = [f"{method} {path} HTTP/{version}", *(f"{k}: {v}" for k, v in named.items()), "", ""]
    raw = "\r\n".join(lines).encode() + body
    cut = len(raw) - min(len(body), draw(st.integers(1, 40)))
    return raw[:cut], raw[cut:]


@settings(max_examples=100, deadline=None)
@given(st.lists(requests(), min_size=1, max_size=3))
def test_both_ways_are_equal(sent: Sequence[tuple[bytes, bytes]]) -> None:
    whole = b"".join(first + last for first, last in sent)
    at_once = heard(Host(), whole)
    assert at_once == heard(Host(by_task=True), whole)
    if all(b"Expect" not in first for first, _ in sent):  # Else it is told to go on meanwhile.
        assert at_once == heard(Host(), *(part for parts in sent for part in parts if part))


def post(body: bytes, *lines: bytes, version: bytes = b"1.1") -> bytes:
    head = [b"POST /v1/score HTTP/" + version, b"Host: x", *lines, b"Content-Length: %d"]
    return b"\r\n".join(head) % len(body) + b"\r\n\r\n" + body


RIGHT = in_json({"id": "a", "verifier": "answer", "answers": ["4"], "gold": ["4"]})
ALLOWED = f"Authorization: Bearer {TOKEN}".encode()


def test_the_property_is_about_requests_that_take_no_task() -> None:
    request = post(RIGHT, ALLOWED)
    assert (heard(Host(), request).tasks, heard(Host(by_task=True), request).tasks) == (0, 1)


def test_an_old_client_is_not_kept_waiting() -> None:
    """HTTP/1.0 with keep-alive was answered as if it were 1.1, and the connection left open."""
    found = heard(Host(), post(RIGHT, ALLOWED, b"Connection: keep-alive", version=b"1.0"))
    assert b"connection: close\r\n" in found.sent
    assert found.closed


def test_what_comes_behind_a_body_is_no_header() -> None:
    """A token in a trailer was taken for the request's."""
    head = b"POST /v1/score HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n"
    chunk = b"%x\r\n%b\r\n0\r\n" % (len(RIGHT), RIGHT)
    for parts in ([head + chunk + ALLOWED + b"\r\n\r\n"], [head, chunk, ALLOWED + b"\r\n\r\n"]):
        assert heard(Host(), *parts).sent.startswith(b"HTTP/1.1 401 ")


def test_a_request_is_counted_once_though_its_reply_cannot_be_written() -> None:
    """It was counted as answered at once, and then again."""
    host = Host()
    vars(host.scorer)["at_once"] = lambda _: [object()]
    found = heard(host, post(RIGHT, ALLOWED))
    assert found.sent.startswith(b"HTTP/1.1 200 ")
    assert found.counts[("rewards_requests_total", ("status", "200"))] == 1


LINE = b"x: " + b"y" * 1000 + b"\r\n"


def test_no_head_or_trailer_grows_without_bound() -> None:
    """Nor a single line, nor a target, nor what stands beside a chunk's length."""
    chunked = b"POST /v1/score HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n"
    for start, more in [
        (b"POST /v1/score HTTP/1.1\r\n", LINE), (b"POST /v1/score HTTP/1.1\r\nx: ", b"y" * 1000),
        (b"POST /", b"y" * 1000), (chunked + b"2\r\n{}\r\n0\r\n", LINE),
        (chunked + b"2;", b"y" * 1000),
    ]:  # fmt: skip
        found = heard(Host(), start, *[more] * (BESIDE // 1000 + 1))
        assert found.closed
        assert b"HTTP/1.1 400 Bad Request\r\n" in found.sent
    within = post(RIGHT, ALLOWED, *[LINE.strip()] * 60)
    pieces = [within[at : at + 500] for at in range(0, len(within), 500)]
    found = heard(Host(), *pieces)
    assert found.sent.startswith(b"HTTP/1.1 200 ")
    assert not found.closed


def test_a_client_that_does_not_finish_is_let_go() -> None:
    """Nor one that never begins: half a request held its connection for ever."""

    async def closed(*parts: bytes) -> bool:
        protocol, wire = opened(Host(), timeout_keep_alive=0)
        for part in parts:
            protocol.data_received(part)
        await asyncio.sleep(0.01)
        return wire.closed

    whole = post(RIGHT, ALLOWED)
    for parts in ([], [whole[:5]], [whole, whole[:5]], [whole[:5], whole[5:30]], [whole]):
        assert asyncio.run(closed(*parts))
