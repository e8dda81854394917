"""The client against a server that misbehaves as the test says, and against the real one."""

import asyncio
import json
from collections.abc import Awaitable, Callable
from typing import Any

import pytest
from aiohttp import web

from sandbox.client import SandboxClient, SandboxRefused, SandboxUnavailable
from sandbox.schema import Result, StdioSubmission, StdioTest
from tests.sandbox.service import Service

SUBMISSION = StdioSubmission(id="c", mode="stdio", code="print(4)", tests=[StdioTest(expected="4")])
RIGHT = Result(
    id="c", verdict="UNSUPPORTED", reward=None, retryable=False, tier="t", total=1
).model_dump()
FAULT = {**RIGHT, "verdict": "IE", "retryable": True, "detail": "died"}
Reply = tuple[int, Any]


def asked(*replies: Reply | None, patience: float = 5.0, token: str | None = None) -> Any:
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
        text = content if isinstance(content, str) else json.dumps(content)
        return web.Response(status=status, text=text)

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
    result, seen = asked(None, (429, ""), (503, ""), (500, "bug"), (200, FAULT), (200, RIGHT))
    assert result.verdict == "UNSUPPORTED"
    assert len(seen) == 6
    assert all(body == seen[0][0] for body, _ in seen)


@pytest.mark.parametrize(
    ("reply", "reason"),
    [
        ((429, ""), "overload"), ((200, FAULT), "internal"), ((200, "{}"), "protocol"),
        ((200, {**RIGHT, "id": "other"}), "protocol"), ((502, ""), "protocol"),
        ((200, {**RIGHT, "reward": 1}), "protocol"), (None, "unreachable"),
    ],
)  # fmt: skip
def test_what_stays_wrong_is_no_result(reply: Reply | None, reason: str) -> None:
    fault, seen = asked(reply, patience=0.3)
    assert isinstance(fault, SandboxUnavailable)
    assert fault.reason == reason
    assert len(seen) >= 1


@pytest.mark.parametrize("status", [401, 409, 413, 422])
def test_a_refusal_is_final(status: int) -> None:
    fault, seen = asked((status, {"detail": "tests: none"}))
    assert isinstance(fault, SandboxRefused)
    assert "tests: none" in str(fault)
    assert len(seen) == 1


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
