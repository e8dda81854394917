"""How requests are received, with a client that behaves as the test says."""

import asyncio
import json
from collections.abc import Awaitable, Callable, MutableMapping
from typing import Any

import pytest

from sandbox import app as apps
from sandbox.app import create_app
from sandbox.desk import Desk
from sandbox.judging.execution import Executor
from sandbox.metrics import Metrics
from sandbox.schema import Capabilities
from sandbox.slots import Pool
from tests.sandbox.test_slots import Stage

Message = MutableMapping[str, Any]
OFFERED = Capabilities(
    version="1",
    tier="stage",
    enforces={},
    languages={},
    modes={},
    slots=1,
    self_test={"passed": True},
)


def posted(
    receive: Callable[[], Awaitable[Message]], length: int, room: int
) -> tuple[int, dict[bytes, bytes]]:
    """Status and headers of the answer to a submission of `length` bytes."""
    sent: list[Message] = []

    async def send(message: Message) -> None:
        sent.append(message)

    async def post() -> None:
        pool = Pool(Stage(), 1, Metrics())
        desk = Desk(Executor(pool, {}), Metrics(), room)
        app = create_app(desk, pool, Metrics(), OFFERED, None)
        scope = {
            "type": "http", "method": "POST", "path": "/v1/execute", "query_string": b"",
            "headers": [(b"content-length", str(length).encode())],
        }  # fmt: skip
        async with asyncio.timeout(30):
            await app(scope, receive, send)

    asyncio.run(post())
    return sent[0]["status"], dict(sent[0]["headers"])


def test_a_body_that_does_not_arrive_is_not_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(apps, "_BODY_WITHIN", 0.05)
    parts: list[Message] = [{"type": "http.request", "body": b"{", "more_body": True}]

    async def receive() -> Message:
        if not parts:
            await asyncio.Event().wait()
        return parts.pop()

    status, headers = posted(receive, length=100, room=1)
    assert (status, headers[b"connection"]) == (408, b"close")


def test_a_large_body_is_not_read_while_there_is_no_room_for_it() -> None:
    async def receive() -> Message:
        raise AssertionError("the body is read")

    status, headers = posted(receive, length=2**24, room=0)
    assert (status, headers[b"retry-after"]) == (429, b"1")


def test_a_small_body_is_read_as_it_may_ask_for_a_result_that_is_there() -> None:
    async def receive() -> Message:
        return {"type": "http.request", "body": json.dumps({}).encode()}

    assert posted(receive, length=2, room=0)[0] == 422
