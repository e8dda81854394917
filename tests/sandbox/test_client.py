"""The client against a server that misbehaves as the test says, and against the real one."""

import asyncio
import json
import time
from collections.abc import Awaitable, Callable
from typing import Any

import pytest
from aiohttp import web

from sandbox import client as clients
from sandbox.client import SandboxClient, SandboxRefused, SandboxUnavailable
from sandbox.schema import Result, StdioSubmission, StdioTest
from sandbox.version import HEADER, version
from tests.sandbox.service import Service

SUBMISSION = StdioSubmission(id="c", mode="stdio", code="print(4)", tests=[StdioTest(expected="4")])
RIGHT = Result(
    id="c", verdict="UNSUPPORTED", reward=None, retryable=False, tier="t", total=1
).model_dump()
FAULT = {**RIGHT, "verdict": "IE", "retryable": True, "detail": "died"}
Reply = tuple[int, Any]


@pytest.fixture(autouse=True)
def _impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    """Pauses between tries are short, unless the service asks for one."""
    monkeypatch.setattr(clients, "_grown", lambda _: 0.05)


def asked(
    *replies: Reply | None, patience: float = 5.0, token: str | None = None, **headers: str
) -> Any:
    """Result or fault of one `execute`, and what was asked; None drops the connection."""
    script, seen = list(replies), []

    async def handle(request: web.Request) -> web.StreamResponse:
        seen.append((await request.json(), request.headers.get("Authorization")))
        reply = script.pop(0) if len(script) > 1 else script[0]
        if reply is None:
            assert request.transport is not None
            request.transport.abort()
            return web.Response()
        status, content = reply
        body = content if isinstance(content, bytes) else json.dumps(content).encode()
        return web.Response(status=status, body=body, headers={HEADER: version(), **headers})

    async def run() -> Any:
        app = web.Application()
        app.router.add_post("/v1/execute", handle)
        runner = web.AppRunner(app)
        await runner.setup()
        site = web.TCPSite(runner, "127.0.0.1", 0)
        await site.start()
        port = runner.addresses[0][1]
        try:
            async with SandboxClient(
                f"http://127.0.0.1:{port}", token, patience=patience, timeout=5
            ) as client:
                return await client.execute(SUBMISSION)
        except (SandboxRefused, SandboxUnavailable) as fault:
            return fault
        finally:
            await runner.cleanup()

    return asyncio.run(run()), seen


def test_faults_are_asked_again() -> None:
    result, seen = asked(None, (429, b""), (503, b""), (500, b"bug"), (200, FAULT), (200, RIGHT))
    assert result.verdict == "UNSUPPORTED"
    assert len(seen) == 6
    assert all(body == seen[0][0] for body, _ in seen)


@pytest.mark.parametrize(
    ("reply", "reason"),
    [
        ((429, b""), "overload"), ((200, FAULT), "internal"), ((200, {}), "protocol"),
        ((200, {**RIGHT, "id": "other"}), "protocol"), ((502, b"\xff"), "protocol"),
        ((200, {**RIGHT, "reward": 1}), "protocol"), (None, "unreachable"),
    ],
)  # fmt: skip
def test_what_stays_wrong_is_no_result(reply: Reply | None, reason: str) -> None:
    fault, seen = asked(reply, patience=0.3)
    assert isinstance(fault, SandboxUnavailable)
    assert fault.reason == reason
    assert len(seen) > 1


@pytest.mark.parametrize("status", [413, 422])
def test_a_refusal_is_final(status: int) -> None:
    fault, seen = asked((status, b"tests: none \xff"))
    assert isinstance(fault, SandboxRefused)
    assert "tests: none \ufffd" in str(fault)
    assert len(seen) == 1


@pytest.mark.parametrize(
    ("status", "reason", "says"),
    [
        (401, "denied", "set SANDBOX_TOKEN"), (403, "denied", "set SANDBOX_TOKEN"),
        (409, "conflict", "used once"),
    ],
)  # fmt: skip
def test_a_wrong_token_or_id_is_no_fault_of_the_tests_and_not_asked_again(
    status: int, reason: str, says: str
) -> None:
    fault, seen = asked((status, b"ids are used once"))
    assert isinstance(fault, SandboxUnavailable)
    assert (fault.reason, says in str(fault), len(seen)) == (reason, True, 1)


@pytest.mark.parametrize("other", ["", "0" * 64])
def test_a_result_of_another_version_is_not_taken(other: str) -> None:
    fault, seen = asked((200, RIGHT), **{HEADER: other})
    assert isinstance(fault, SandboxUnavailable)
    assert (fault.reason, len(seen)) == ("version", 1)
    assert "install the same release" in str(fault)


def test_the_service_says_how_long_to_wait() -> None:
    began = time.monotonic()
    result, seen = asked((429, b""), (200, RIGHT), **{"Retry-After": "1"})
    assert (result.verdict, len(seen)) == ("UNSUPPORTED", 2)
    assert time.monotonic() - began >= 1
    fault, seen = asked((429, b""), **{"Retry-After": "60"})
    assert (fault.reason, len(seen)) == ("overload", 1)
    fault, seen = asked((503, b""), patience=0.3, **{"Retry-After": "Wed, 21 Oct 2026 07:28:00"})
    assert (fault.reason, len(seen) > 1) == ("overload", True)


def test_the_token_is_sent() -> None:
    _, seen = asked((200, RIGHT), token="secret")
    assert seen[0][1] == "Bearer secret"


def test_nobody_there_is_unavailable() -> None:
    async def ask() -> None:
        async with SandboxClient("http://127.0.0.1:9", patience=0.1) as client:
            assert not await client.ready()
            await client.execute(SUBMISSION)

    with pytest.raises(SandboxUnavailable) as caught:
        asyncio.run(ask())
    assert caught.value.reason == "unreachable"


def run_on(sandbox: Service, talk: Callable[[SandboxClient], Awaitable[Any]]) -> Any:
    async def run() -> Any:
        async with SandboxClient(sandbox.url) as client:
            return await talk(client)

    return asyncio.run(run())


def test_a_real_service_answers(sandbox: Service) -> None:
    async def talk(client: SandboxClient) -> Result:
        assert await client.ready()
        return await client.execute(SUBMISSION.model_copy(update={"id": "real"}))

    assert run_on(sandbox, talk).reward == 1
